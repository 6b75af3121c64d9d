// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/tokenizer_pipeline.h"

#include "engine/text/utf8.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace engine {
namespace {

constexpr std::size_t longestText = (1ULL << 31U) - 1;

/// What a token is beside its spelling.
enum Trait : std::uint8_t { Added = 1, Control = 2, EndOfGeneration = 4, Renamed = 8, Skipped = 16 };

class PipelineTokenizer final : public Tokenizer {
public:
    explicit PipelineTokenizer(TokenizerParts parts)
        : m_parts(std::move(parts))
        , m_model(makeModel())
        , m_raw(m_parts.added, false, m_parts.normalizer)
        , m_normalized(m_parts.added, true, m_parts.normalizer)
        , m_traits(static_cast<std::size_t>(m_parts.tokens.size()))
    {
        m_parts.merges = {};
        for (const AddedToken &token : m_parts.added)
            mark(token.id, token.special ? Added | Control : Added);
        renameNormalized();
        markSkipped();
        for (const int id : m_parts.endOfGeneration)
            mark(id, EndOfGeneration);
    }

    [[nodiscard]] std::vector<int> encode(std::string_view text, const EncodeOptions &options) const override
    {
        if (text.size() > longestText)
            throw Error(ErrorCode::Refused,
                        "text to encode: " + std::to_string(text.size()) + " bytes are too long, at most "
                            + std::to_string(longestText) + " are read");
        std::vector<int> ids;
        ids.reserve(text.size() / 4 + 8);
        if (options.addSpecial)
            ids.insert(ids.end(), m_parts.prefix.begin(), m_parts.prefix.end());
        if (utf8::isValid(text))
            encodeValid(text, options.parseSpecial, ids);
        else
            encodeValid(utf8::repaired(text), options.parseSpecial, ids);
        if (options.addSpecial)
            ids.insert(ids.end(), m_parts.suffix.begin(), m_parts.suffix.end());
        return ids;
    }
    [[nodiscard]] std::string decode(const std::vector<int> &ids, bool skipSpecial) const override
    {
        std::string all;
        const std::unique_ptr<TokenStream> tokens = stream(skipSpecial);
        for (const int id : ids)
            tokens->append(id, all);
        tokens->finish(all);
        return utf8::repaired(all);
    }
    [[nodiscard]] std::string piece(int id) const override { return utf8::repaired(spelling(id)); }
    [[nodiscard]] int vocabSize() const override { return m_parts.tokens.size(); }

    [[nodiscard]] bool isControl(int id) const override { return has(id, Control); }
    [[nodiscard]] std::string bytes(int id, bool skipSpecial) const override
    {
        const std::string_view text = spelling(id);
        if (skipSpecial && has(id, Skipped))
            return {};
        return isVerbatim(id) ? std::string(text) : m_parts.decoder.bytes(text);
    }
    [[nodiscard]] std::unique_ptr<TokenStream> stream(bool skipSpecial) const override;
    [[nodiscard]] std::optional<int> bos() const override { return m_parts.bos; }
    [[nodiscard]] std::optional<int> eos() const override { return m_parts.eos; }
    [[nodiscard]] bool addsBos() const override
    {
        return m_parts.bos && !m_parts.prefix.empty() && m_parts.prefix.front() == *m_parts.bos;
    }
    [[nodiscard]] bool isEndOfGeneration(int id) const override { return has(id, EndOfGeneration); }
    [[nodiscard]] std::optional<int> find(std::string_view piece) const override
    {
        const int id = m_parts.tokens.find(piece);
        return id >= 0 ? std::optional(id) : std::nullopt;
    }

private:
    class Stream;

    [[nodiscard]] std::unique_ptr<WordModel> makeModel()
    {
        if (m_parts.unigram)
            return std::make_unique<Unigram>(m_parts.tokens, std::move(*m_parts.unigram));
        if (m_parts.wordPiece)
            return std::make_unique<WordPiece>(m_parts.tokens, std::move(*m_parts.wordPiece));
        if (m_parts.wordLevel)
            return std::make_unique<WordLevel>(m_parts.tokens, std::move(*m_parts.wordLevel));
        return std::make_unique<Bpe>(m_parts.tokens, m_parts.merges, m_parts.bpe);
    }
    [[nodiscard]] bool isVerbatim(int id) const { return m_parts.addedAreVerbatim && has(id, Added); }
    void mark(int id, unsigned traits)
    {
        CHECK(m_parts.tokens.has(id));
        m_traits[static_cast<std::size_t>(id)] |= static_cast<std::uint8_t>(traits);
    }
    [[nodiscard]] bool has(int id, Trait trait) const
    {
        return id >= 0 && id < vocabSize() && (m_traits[static_cast<std::size_t>(id)] & trait) != 0;
    }
    [[nodiscard]] std::string_view spelling(int id) const
    {
        if (id < 0 || id >= vocabSize())
            throw Error(ErrorCode::Refused,
                        "token id " + std::to_string(id) + " is outside the vocabulary of "
                            + std::to_string(vocabSize()) + " tokens");
        return has(id, Renamed) ? m_renamed.at(id) : m_parts.tokens.spelling(id);
    }
    /// A token that is searched in normalized text stands for the text that is found.
    void renameNormalized()
    {
        RegexScratch scratch;
        std::string storage;
        for (const AddedToken &token : m_parts.added) {
            const std::string_view content =
                token.normalized ? m_parts.normalizer.apply(token.content, storage, scratch) : token.content;
            if (content == token.content)
                continue;
            m_renamed[token.id] = content;
            mark(token.id, Renamed);
        }
    }

    /// Control tokens are known by their text when they are skipped, so that one that goes by another is not.
    void markSkipped()
    {
        std::set<std::string_view> texts;
        for (const AddedToken &token : m_parts.added) {
            if (token.special)
                texts.insert(token.content);
        }
        for (const AddedToken &token : m_parts.added) {
            if (texts.contains(spelling(token.id)))
                mark(token.id, Skipped);
        }
    }

    /// Tokens that are searched in the raw text, then normalization, then those searched in the normalized text.
    void encodeValid(std::string_view text, bool parseSpecial, std::vector<int> &ids) const
    {
        RegexScratch scratch;
        std::string storage;
        for (const TextPart &raw : m_raw.split(text, parseSpecial)) {
            if (raw.id >= 0) {
                ids.push_back(raw.id);
                continue;
            }
            bool keepsStart = true;
            const std::string_view all = m_parts.normalizer.apply(raw.text, storage, scratch, &keepsStart);
            for (const TextPart &part : m_normalized.split(all, parseSpecial)) {
                const bool atStart = keepsStart && raw.text.data() == text.data() && part.text.data() == all.data();
                if (part.id >= 0)
                    ids.push_back(part.id);
                else
                    encodePlain(part.text, atStart, scratch, ids);
            }
        }
    }
    void encodePlain(std::string_view text, bool atStart, RegexScratch &scratch, std::vector<int> &ids) const
    {
        const Words words = m_parts.preTokenizer.split(text, atStart, scratch);
        m_model->encode(words.text(), words.begins, words.ends, ids);
    }

    TokenizerParts m_parts;
    std::unique_ptr<WordModel> m_model;
    AddedTokens m_raw;
    AddedTokens m_normalized;
    std::vector<std::uint8_t> m_traits;
    std::map<int, std::string> m_renamed;
};

class PipelineTokenizer::Stream final : public TokenStream {
public:
    Stream(const PipelineTokenizer &tokenizer, bool skipSpecial)
        : m_tokenizer(tokenizer)
        , m_skipSpecial(skipSpecial)
        , m_text(tokenizer.m_parts.decoder)
    {
    }
    void append(int id, std::string &out) override
    {
        const std::string_view spelling = m_tokenizer.spelling(id);
        if (!m_tokenizer.m_parts.tokens.has(id) || (m_skipSpecial && m_tokenizer.has(id, Skipped)))
            return;
        if (m_tokenizer.isVerbatim(id))
            m_text.appendVerbatim(spelling, out);
        else
            m_text.append(spelling, out);
    }
    void finish(std::string &out) override { m_text.finish(out); }

private:
    const PipelineTokenizer &m_tokenizer;
    bool m_skipSpecial;
    TokenDecoder::Stream m_text;
};

std::unique_ptr<TokenStream> PipelineTokenizer::stream(bool skipSpecial) const
{
    if (m_parts.decoder.isPlaceless())
        return Tokenizer::stream(skipSpecial);
    return std::make_unique<Stream>(*this, skipSpecial);
}

} // namespace

std::unique_ptr<Tokenizer> makePipelineTokenizer(TokenizerParts parts)
{
    return std::make_unique<PipelineTokenizer>(std::move(parts));
}

std::vector<int> knownEndTokens(const std::vector<AddedToken> &added)
{
    // As the published chat models name them; <|end|> ends only a part of an answer where <|return|> exists (gpt-oss).
    constexpr std::array<std::string_view, 16> ends = {"<|im_end|>",
                                                       "<|eot_id|>",
                                                       "<|eom_id|>",
                                                       "<|endoftext|>",
                                                       "</s>",
                                                       "<|end|>",
                                                       "<|end_of_text|>",
                                                       "<|return|>",
                                                       "<|call|>",
                                                       "<end_of_turn>",
                                                       "<|EOT|>",
                                                       "<EOT>",
                                                       "<eos>",
                                                       "<|END_OF_TURN_TOKEN|>",
                                                       "<｜end▁of▁sentence｜>",
                                                       "<|eot|>"};
    const bool hasReturn =
        std::any_of(added.begin(), added.end(), [](const AddedToken &token) { return token.content == "<|return|>"; });
    std::vector<int> ids;
    for (const AddedToken &token : added) {
        const bool known = std::find(ends.begin(), ends.end(), token.content) != ends.end();
        if (token.special && known && !(hasReturn && token.content == "<|end|>"))
            ids.push_back(token.id);
    }
    return ids;
}

} // namespace engine
