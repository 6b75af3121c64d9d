// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/pretokenizer.h"

#include "engine/text/bpe.h"
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
    /// Drops the empty words that empty matches made; until then they keep apart what stands beside them.
    void finish()
    {
        std::size_t kept = 0;
        for (std::size_t i = 0; i < m_out.ends.size(); ++i) {
            m_out.begins[kept] = m_out.begins[i];
            m_out.ends[kept] = m_out.ends[i];
            kept += m_out.begins[i] < m_out.ends[i] ? 1 : 0;
        }
        m_out.begins.resize(kept);
        m_out.ends.resize(kept);
    }
    void part(std::size_t begin, std::size_t end, bool matched)
    {
        matched = matched != m_invert;
        if (!matched || m_behavior != SplitBehavior::Removed) {
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
    forEachMatch(regex, word, scratch, [&](const Regex::Match &match) {
        if (done < match.begin)
            cutter.part(base + done, base + match.begin, false);
        cutter.part(base + match.begin, base + match.end, true);
        done = match.end;
    });
    if (done < word.size())
        cutter.part(base + done, base + word.size(), false);
}

/// The same with characters that pass a test as matches.
void cutWord(PreTokenizer::CharacterTest test, std::string_view word, std::size_t base, RegexScratch &, Cutter &cutter)
{
    cutter.startWord();
    std::size_t done = 0;
    for (std::size_t at = 0; at < word.size();) {
        const utf8::Character character = utf8::decode(word, at);
        const std::size_t end = at + static_cast<std::size_t>(character.bytes);
        if (test(character.code)) {
            if (done < at)
                cutter.part(base + done, base + at, false);
            cutter.part(base + at, base + end, true);
            done = end;
        }
        at = end;
    }
    if (done < word.size())
        cutter.part(base + done, base + word.size(), false);
}

/// Puts other bounds in place of those of `words`.
void replaceBounds(Words &words, Words &cut)
{
    words.atStart = words.atStart && !cut.begins.empty() && cut.begins.front() == words.begins.front();
    words.begins.swap(cut.begins);
    words.ends.swap(cut.ends);
}

template<typename What>
void cutWords(const What &what, SplitBehavior behavior, bool invert, RegexScratch &scratch, Words &words)
{
    Words cut;
    Cutter cutter(behavior, invert, cut);
    for (std::size_t i = 0; i < words.ends.size(); ++i)
        cutWord(what, words.word(i), words.begins[i], scratch, cutter);
    cutter.finish();
    replaceBounds(words, cut);
}

void cutByLength(std::size_t characters, Words &words)
{
    Words cut;
    for (std::size_t i = 0; i < words.ends.size(); ++i) {
        std::size_t count = 0;
        for (std::uint32_t at = words.begins[i]; at < words.ends[i]; ++count) {
            if (count % characters == 0) {
                if (count > 0)
                    cut.ends.push_back(at);
                cut.begins.push_back(at);
            }
            at += static_cast<std::uint32_t>(utf8::decode(words.text(), at).bytes);
        }
        cut.ends.push_back(words.ends[i]);
    }
    replaceBounds(words, cut);
}

/// The words with their text made anew by `write`, which may cut a word in several.
template<typename Write> Words rewritten(const Words &words, const Write &write)
{
    Words out;
    out.atStart = words.atStart;
    out.changed.reserve(words.text().size() + words.text().size() / 2 + words.ends.size());
    for (std::size_t i = 0; i < words.ends.size(); ++i) {
        out.begins.push_back(static_cast<std::uint32_t>(out.changed.size()));
        write(i, out);
        out.ends.push_back(static_cast<std::uint32_t>(out.changed.size()));
    }
    return out;
}

Words prefixed(const Words &words)
{
    return rewritten(words, [&](std::size_t i, Words &out) {
        if (words.word(i).front() != ' ')
            out.changed.push_back(' ');
        out.changed += words.word(i);
    });
}

Words spelled(const Words &words)
{
    return rewritten(words, [&](std::size_t i, Words &out) { out.changed += byte_level::spell(words.word(i)); });
}

/// Spaces become the mark, and a mark starts a word of its own with what follows it.
Words marked(const Words &words, const Metaspace &rule)
{
    return rewritten(words, [&](std::size_t i, Words &out) {
        const std::string_view word = words.word(i);
        const bool wanted = rule.prepend == Metaspace::Prepend::Always
            || (rule.prepend == Metaspace::Prepend::First && i == 0 && words.atStart);
        if (wanted && word.front() != ' ' && !word.starts_with(rule.mark))
            out.changed += rule.mark;
        for (std::size_t at = 0; at < word.size();) {
            const bool space = word[at] == ' ';
            const bool mark = space || word.substr(at).starts_with(rule.mark);
            if (mark && rule.split && out.changed.size() > out.begins.back()) {
                out.ends.push_back(static_cast<std::uint32_t>(out.changed.size()));
                out.begins.push_back(static_cast<std::uint32_t>(out.changed.size()));
            }
            if (mark)
                out.changed += rule.mark;
            else
                out.changed.push_back(word[at]);
            at += mark && !space ? rule.mark.size() : 1;
        }
    });
}

} // namespace

void PreTokenizer::addSplit(Regex regex, SplitBehavior behavior, bool invert)
{
    m_steps.emplace_back(Split{std::move(regex), behavior, invert});
}

void PreTokenizer::addSplit(CharacterTest test, SplitBehavior behavior)
{
    m_steps.emplace_back(Split{test, behavior, false});
}

void PreTokenizer::addFixedLength(std::size_t characters)
{
    m_steps.emplace_back(FixedLength{characters});
}

void PreTokenizer::addPrefixSpace()
{
    m_steps.emplace_back(PrefixSpace{});
}

void PreTokenizer::addMetaspace(Metaspace rule)
{
    m_steps.emplace_back(std::move(rule));
}

void PreTokenizer::addByteLevel()
{
    m_steps.emplace_back(ByteLevel{});
}

bool PreTokenizer::takeByteLevel()
{
    if (m_steps.empty() || !std::holds_alternative<ByteLevel>(m_steps.back()))
        return false;
    m_steps.pop_back();
    return true;
}

void PreTokenizer::apply(const Step &step, RegexScratch &scratch, Words &words)
{
    if (const auto *split = std::get_if<Split>(&step))
        std::visit([&](const auto &what) { cutWords(what, split->behavior, split->invert, scratch, words); },
                   split->what);
    else if (const auto *metaspace = std::get_if<Metaspace>(&step))
        words = marked(words, *metaspace);
    else if (const auto *length = std::get_if<FixedLength>(&step))
        cutByLength(length->characters, words);
    else
        words = std::holds_alternative<ByteLevel>(step) ? spelled(words) : prefixed(words);
}

Words PreTokenizer::split(std::string_view text, bool atStart, RegexScratch &scratch) const
{
    scratch.prepare(text);
    Words words{text, {}, {}, {}, atStart};
    if (!text.empty()) {
        words.begins.push_back(0);
        words.ends.push_back(static_cast<std::uint32_t>(text.size()));
    }
    for (const Step &step : m_steps)
        apply(step, scratch, words);
    return words;
}

} // namespace engine
