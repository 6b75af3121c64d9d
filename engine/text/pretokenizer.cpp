// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/pretokenizer.h"

#include "engine/text/utf8.h"

namespace engine {
namespace {

/// Collects the parts of one word under a behaviour.
class Cutter {
public:
    Cutter(SplitBehavior behavior, bool invert, Words &out)
        : m_behavior(behavior)
        , m_invert(invert)
        , m_out(out)
    {
    }

    void startWord()
    {
        m_fresh = true;
        m_lastMatched = false;
    }
    void part(std::size_t begin, std::size_t end, bool matched)
    {
        matched = matched != m_invert;
        if (begin < end && !(matched && m_behavior == SplitBehavior::Removed)) {
            if (!m_fresh && joins(matched))
                m_out.ends.back() = static_cast<std::uint32_t>(end);
            else
                put(begin, end);
            m_fresh = false;
        }
        m_lastMatched = matched;
    }

private:
    [[nodiscard]] bool joins(bool matched) const
    {
        switch (m_behavior) {
        case SplitBehavior::Contiguous:
            return matched == m_lastMatched;
        case SplitBehavior::MergedWithPrevious:
            return matched && !m_lastMatched;
        case SplitBehavior::MergedWithNext:
            return !matched && m_lastMatched;
        case SplitBehavior::Isolated:
        case SplitBehavior::Removed:
            return false;
        }
        return false;
    }
    void put(std::size_t begin, std::size_t end)
    {
        m_out.begins.push_back(static_cast<std::uint32_t>(begin));
        m_out.ends.push_back(static_cast<std::uint32_t>(end));
    }

    SplitBehavior m_behavior;
    bool m_invert;
    Words &m_out;
    bool m_fresh = true;
    bool m_lastMatched = false;
};

/// Cuts the word at `base` of the text. A pattern sees one word only, so that its look-arounds end where it ends.
void cutWord(const Regex &regex, std::string_view word, std::size_t base, RegexScratch &scratch, Cutter &cutter)
{
    cutter.startWord();
    std::size_t done = 0;
    std::size_t from = 0;
    std::optional<std::size_t> lastEnd;
    while (from <= word.size()) {
        const auto match = regex.find(word, from, scratch);
        if (!match)
            break;
        const bool empty = match->begin == match->end;
        // An empty match always moves on by a character, and is none right behind another match.
        if (!empty || lastEnd != match->begin) {
            if (done < match->begin)
                cutter.part(base + done, base + match->begin, false);
            cutter.part(base + match->begin, base + match->end, true);
            done = match->end;
            lastEnd = match->end;
        }
        from = match->end;
        if (empty)
            from += from < word.size() ? static_cast<std::size_t>(utf8::decode(word, from).bytes) : 1;
    }
    if (done < word.size())
        cutter.part(base + done, base + word.size(), false);
}

Words prefixed(const Words &words)
{
    Words out;
    out.changed.reserve(words.text().size() + words.ends.size());
    for (std::size_t i = 0; i < words.ends.size(); ++i) {
        out.begins.push_back(static_cast<std::uint32_t>(out.changed.size()));
        if (words.word(i).front() != ' ')
            out.changed.push_back(' ');
        out.changed += words.word(i);
        out.ends.push_back(static_cast<std::uint32_t>(out.changed.size()));
    }
    return out;
}

} // namespace

void PreTokenizer::addSplit(Regex regex, SplitBehavior behavior, bool invert)
{
    m_steps.push_back({std::move(regex), behavior, invert});
}

void PreTokenizer::addPrefixSpace()
{
    m_steps.emplace_back();
}

Words PreTokenizer::split(std::string_view text, RegexScratch &scratch) const
{
    scratch.prepare(text);
    Words words{text, {}, {}, {}};
    if (!text.empty()) {
        words.begins.push_back(0);
        words.ends.push_back(static_cast<std::uint32_t>(text.size()));
    }
    Words next;
    for (const Step &step : m_steps) {
        if (!step.regex) {
            words = prefixed(words);
            continue;
        }
        next.begins.clear();
        next.ends.clear();
        Cutter cutter(step.behavior, step.invert, next);
        for (std::size_t i = 0; i < words.ends.size(); ++i)
            cutWord(*step.regex, words.word(i), words.begins[i], scratch, cutter);
        words.begins.swap(next.begins);
        words.ends.swap(next.ends);
    }
    return words;
}

} // namespace engine
