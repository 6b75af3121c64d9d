// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/output_fields.h"
#include "engine/text/output_parser.h"

#include <memory>

namespace engine {

/// Ids of the markers that some families share; -1 where the vocabulary has none.
struct ThinkMarkers {
    int open = -1;
    int close = -1;

    /// Whether a prompt leaves the reasoning open: its last marker opens. An end of a turn closes everything.
    [[nodiscard]] bool leavesOpen(std::span<const int> prompt, const Tokenizer &tokenizer) const;
};

/// Content and reasoning of the families whose reasoning stands between two tokens.
class ThinkingFields {
public:
    explicit ThinkingFields(ThinkMarkers markers)
        : m_markers(markers)
    {
    }

    void begin(bool reasoning);
    [[nodiscard]] bool isMarker(int token) const
    {
        return token >= 0 && (token == m_markers.open || token == m_markers.close);
    }
    void marker(int token);
    /// Content goes on after a part that was neither.
    void resumeContent() { m_content.restart("\n"); }
    void text(std::string_view text, OutputDelta &out);
    void finish(OutputDelta &out);
    [[nodiscard]] const ThinkMarkers &markers() const { return m_markers; }

private:
    ThinkMarkers m_markers;
    bool m_reasons = false;
    TrimmedText m_content;
    TrimmedText m_reasoning;
};

/// One per family of markers; null where the vocabulary lacks them.
[[nodiscard]] std::unique_ptr<OutputParser> makeHarmonyParser(const Tokenizer &tokenizer);
[[nodiscard]] std::unique_ptr<OutputParser> makeDeepSeekParser(const Tokenizer &tokenizer);
[[nodiscard]] std::unique_ptr<OutputParser> makeMistralParser(const Tokenizer &tokenizer);
[[nodiscard]] std::unique_ptr<OutputParser> makeLlamaParser(const Tokenizer &tokenizer, bool offersTools);
[[nodiscard]] std::unique_ptr<OutputParser> makeTaggedParser(const Tokenizer &tokenizer);

} // namespace engine
