// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cli {

/// Cuts a stream of server-sent events into the texts of their `data:` fields.
/// Source: WHATWG HTML, section 9.2.6; other fields and comments are passed over.
class SseReader {
public:
    /// The events that `bytes` completes.
    [[nodiscard]] std::vector<std::string> append(std::string_view bytes);

private:
    void takeLine(std::string_view line, std::vector<std::string> &events);

    std::string m_rest; // of a line
    std::string m_data; // of the event in hand
    bool m_hasData = false;
};

} // namespace cli
