// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/ids_only_tokenizer.h"

#include "engine/text/utf8.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace engine {
namespace {

constexpr std::string_view wordMark = "\xe2\x96\x81"; ///< U+2581, a space in SentencePiece vocabularies

/// The byte of "<0xNN>", strictly two hexadecimal digits, else nothing.
std::optional<char> byteOf(std::string_view piece)
{
    if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>')
        return std::nullopt;
    unsigned value = 0;
    const auto [end, fault] = std::from_chars(piece.data() + 3, piece.data() + 5, value, 16);
    if (fault != std::errc() || end != piece.data() + 5)
        return std::nullopt;
    return static_cast<char>(value);
}

std::string withSpaces(std::string_view piece)
{
    std::string text;
    for (std::size_t i = 0; i < piece.size();) {
        const bool mark = piece.substr(i).starts_with(wordMark);
        text += mark ? ' ' : piece[i];
        i += mark ? wordMark.size() : 1;
    }
    return text;
}

class IdsOnlyTokenizer final : public Tokenizer {
public:
    IdsOnlyTokenizer(VocabularyData data, std::string reason)
        : m_data(std::move(data))
        , m_reason(std::move(reason))
    {
    }

    [[nodiscard]] std::vector<int> encode(std::string_view, const EncodeOptions &) const override
    {
        throw Error(ErrorCode::Refused, m_reason);
    }
    [[nodiscard]] std::string decode(const std::vector<int> &ids, bool skipSpecial) const override
    {
        std::string text;
        for (const int id : ids)
            text += bytes(id, skipSpecial);
        return utf8::repaired(text);
    }
    [[nodiscard]] std::string piece(int id) const override { return m_data.tokens[checked(id)]; }
    [[nodiscard]] int vocabSize() const override { return static_cast<int>(m_data.tokens.size()); }
    [[nodiscard]] bool isControl(int id) const override { return kind(id) == TokenKind::Control; }
    [[nodiscard]] std::string bytes(int id, bool skipSpecial) const override;
    [[nodiscard]] std::optional<int> bos() const override { return m_data.bos; }
    [[nodiscard]] std::optional<int> eos() const override { return m_data.eos; }
    [[nodiscard]] bool addsBos() const override
    {
        return m_data.bos && m_data.addBos.value_or(m_data.model == "llama");
    }
    [[nodiscard]] bool isEndOfGeneration(int id) const override
    {
        const std::array ends{m_data.eos, m_data.eot, m_data.eom};
        return std::find(ends.begin(), ends.end(), std::optional(id)) != ends.end();
    }
    [[nodiscard]] std::optional<int> find(std::string_view piece) const override
    {
        const auto found = std::find(m_data.tokens.begin(), m_data.tokens.end(), piece);
        if (found == m_data.tokens.end())
            return std::nullopt;
        return static_cast<int>(found - m_data.tokens.begin());
    }

private:
    [[nodiscard]] std::size_t checked(int id) const
    {
        if (id < 0 || id >= vocabSize())
            throw Error(ErrorCode::Refused,
                        "token id " + std::to_string(id) + " is outside the vocabulary of "
                            + std::to_string(vocabSize()));
        return static_cast<std::size_t>(id);
    }
    [[nodiscard]] TokenKind kind(int id) const
    {
        const std::size_t index = checked(id);
        return m_data.kinds.empty() ? TokenKind::Normal : m_data.kinds[index];
    }

    VocabularyData m_data;
    std::string m_reason;
};

std::string IdsOnlyTokenizer::bytes(int id, bool skipSpecial) const
{
    const std::string &piece = m_data.tokens[checked(id)];
    switch (kind(id)) {
    case TokenKind::Control:
        return skipSpecial ? std::string() : piece;
    case TokenKind::Byte:
        if (const std::optional<char> byte = byteOf(piece))
            return std::string(1, *byte);
        return piece;
    default:
        return withSpaces(piece);
    }
}

} // namespace

std::unique_ptr<Tokenizer> makeIdsOnlyTokenizer(VocabularyData data, std::string reason)
{
    return std::make_unique<IdsOnlyTokenizer>(std::move(data), std::move(reason));
}

} // namespace engine
