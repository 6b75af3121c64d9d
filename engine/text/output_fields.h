// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/call_scanner.h"

#include <string>
#include <string_view>

namespace engine {

/// A part of an answer between two markers: line ends around it belong to the markup and are left out, which holds
/// them back while the part goes on.
class TrimmedText {
public:
    /// What can be shown now.
    [[nodiscard]] std::string append(std::string_view text);
    /// A new part begins. `separator` goes before its text where an earlier part had any.
    void restart(std::string_view separator = {});
    /// Keeps leading line ends from now on: no marker stands before the text.
    void keepStart() { m_started = true; }
    /// Line ends held back at the end of an answer that no marker follows.
    [[nodiscard]] std::string flush();

private:
    bool m_started = false; ///< the part has text
    bool m_any = false;     ///< an earlier part has
    std::string m_separator;
    std::string m_held;
};

/// Passes the first JSON object of a text on and leaves out what stands around it, such as a code fence.
class JsonObjectFilter {
public:
    [[nodiscard]] std::string append(std::string_view text);
    [[nodiscard]] bool started() const { return m_depth > 0 || m_done; }

private:
    int m_depth = 0;
    bool m_done = false;
    bool m_inString = false;
    bool m_escaped = false;
};

} // namespace engine
