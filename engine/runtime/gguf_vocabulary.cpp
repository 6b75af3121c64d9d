// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/gguf_vocabulary.h"

#include "engine/core/printable.h"
#include "engine/runtime/vocabulary.h"
#include "engine/text/pretokenizer_table.h"
#include "engine/text/tokenizer_gguf.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace engine {
namespace {

constexpr std::size_t idSlack = 1000000;

[[noreturn]] void refuse(const FolderTokenizerFiles &files, const std::string &problem)
{
    throw Error(ErrorCode::Refused, inQuotes(files.path) + ' ' + problem);
}

bool isByteToken(const std::string &text)
{
    return text.size() == 6 && text.starts_with("<0x") && text.back() == '>';
}

/// Builds the lists of tokens, kinds and scores.
class Maker {
public:
    Maker(const FolderTokenizerFiles &files, std::int64_t rows)
        : m_files(files)
        , m_file(files.tokenizer)
        , m_model(files.tokenizer.rest.at("model"))
        , m_rows(rows)
    {
    }

    GgufVocabulary make(const Tokenizer &tokenizer, std::string_view architecture, const std::string &name)
    {
        const std::string type = modelType();
        GgufSteps steps;
        for (const char *affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
            if (type == "BPE" && !textAt(m_model, affix).empty()) {
                m_result.refusal = "BPE with the " + std::string(affix) + ' ' + inQuotes(textAt(m_model, affix));
                return std::move(m_result);
            }
        }
        m_tokenizer = &tokenizer;
        if (type == "BPE" && isByteLevel()) {
            steps = byteLevelSteps(m_file.rest, architecture);
            data().model = ggufByteLevel;
            data().pre = steps.pre.empty() ? "default" : steps.pre;
        } else if (type == "BPE" && flagAt(m_model, "byte_fallback")) {
            steps = sentencePieceSteps(m_file.rest);
            data().model = ggufSentencePiece;
            data().pre = "default";
        } else if (type == "Unigram") {
            steps = unigramSteps(m_file.rest);
            data().model = ggufUnigram;
            data().pre = "default";
        } else {
            m_result.refusal = type == "BPE" ? "BPE over characters without a fallback to bytes" : type;
            return std::move(m_result);
        }
        m_result.unsaid = std::move(steps.unsaid);
        const bool phi3 = data().model == ggufSentencePiece && isNamedPhi3(name);
        data().stripsBehindSpecial = phi3;
        for (std::string &flag : unsaidTokenFlags(m_file.rest, phi3))
            m_result.unsaid.push_back(std::move(flag));
        addTokens();
        addScoresAndMerges();
        if (data().model != ggufByteLevel) {
            data().addSpacePrefix = steps.addsSpacePrefix;
            data().removeExtraSpaces = steps.removesExtraSpaces;
            data().characterMap = std::move(steps.characterMap);
        }
        addSpecial(tokenizer);
        return std::move(m_result);
    }

private:
    VocabularyData &data() { return m_result.data; }

    [[nodiscard]] std::string modelType() const
    {
        const std::string type = textAt(m_model, "type");
        if (!type.empty())
            return type;
        return m_file.hasMerges ? "BPE" : m_file.vocabularyIsList ? "Unigram" : "WordPiece"; // old files leave it out
    }
    [[nodiscard]] bool isByteLevel() const
    {
        const auto found = m_file.rest.find("pre_tokenizer");
        return found != m_file.rest.end() && found->dump().find("\"ByteLevel\"") != std::string::npos;
    }

    void set(std::size_t id, const std::string &text, TokenKind kind)
    {
        if (id > data().tokens.size() + idSlack)
            refuse(m_files, "has the token id " + std::to_string(id) + ", far beyond its vocabulary");
        while (data().tokens.size() <= id) {
            data().tokens.push_back("[PAD" + std::to_string(data().tokens.size()) + "]");
            data().kinds.push_back(TokenKind::Unused);
        }
        data().tokens[id] = text;
        data().kinds[id] = kind;
    }

    void addModelTokens()
    {
        const bool bytes = data().model != ggufByteLevel;
        const auto kindOf = [&](const std::string &text) {
            return bytes && isByteToken(text) ? TokenKind::Byte : TokenKind::Normal;
        };
        std::vector<TokenizerFile::VocabularyEntry> ordered = m_file.vocabulary;
        std::ranges::sort(ordered, {}, &TokenizerFile::VocabularyEntry::id);
        for (const TokenizerFile::VocabularyEntry &entry : ordered) {
            const std::string text(m_file.spelling(entry));
            const auto id = static_cast<std::size_t>(entry.id);
            set(id, text, kindOf(text));
            m_ids.insert_or_assign(text, id);
        }
    }

    void addToken(const std::string &text, std::size_t id, bool special)
    {
        if (text.empty())
            return;
        if (const auto known = m_ids.find(text); known != m_ids.end())
            id = known->second;
        else if (const auto real = m_tokenizer->find(text); real && static_cast<std::size_t>(*real) != id)
            refuse(m_files,
                   "gives the token " + inQuotes(text) + " the id " + std::to_string(id) + ", but its place makes that "
                       + std::to_string(*real) + ", which a GGUF file cannot say");
        // Tokens that are searched in text stand in GGUF as they do there.
        std::string spelling = text;
        if (!special && data().model != ggufByteLevel) {
            for (std::size_t at = spelling.find(metaspaceMark); at != std::string::npos;
                 at = spelling.find(metaspaceMark, at))
                spelling.replace(at, std::string_view(metaspaceMark).size(), " ");
        }
        const bool unknown = data().model != ggufByteLevel && text == unknownText();
        set(id, spelling, unknown ? TokenKind::Unknown : special ? TokenKind::Control : TokenKind::UserDefined);
        m_ids.emplace(text, id);
    }

    [[nodiscard]] std::string unknownText() const
    {
        const auto id = m_model.find("unk_id");
        if (id != m_model.end() && id->is_number_unsigned() && *id < m_file.vocabulary.size())
            return std::string(m_file.spelling(m_file.vocabulary[id->get<std::size_t>()]));
        return textAt(m_model, "unk_token");
    }

    void addTokens()
    {
        addModelTokens();
        if (data().tokens.empty())
            refuse(m_files, "has no vocabulary under model.vocab");
        if (const auto unknown = m_ids.find(unknownText()); unknown != m_ids.end()) {
            data().unk = static_cast<int>(unknown->second);
            if (data().model != ggufByteLevel)
                data().kinds[unknown->second] = TokenKind::Unknown;
        }
        if (const auto added = m_file.rest.find("added_tokens"); added != m_file.rest.end()) {
            for (const Json &token : *added)
                addToken(token.at("content").get<std::string>(), token.at("id").get<std::size_t>(),
                         flagAt(token, "special"));
        }
        for (const auto &[text, id] : m_files.added.items()) {
            if (!m_ids.contains(text))
                addToken(text, id.get<std::size_t>(), false);
        }
        fitRows();
    }

    /// One entry for each row of the embeddings.
    void fitRows()
    {
        if (m_rows <= 0)
            return;
        const auto rows = static_cast<std::size_t>(m_rows);
        if (rows > data().tokens.size()) {
            set(rows - 1, "[PAD" + std::to_string(rows - 1) + "]", TokenKind::Unused);
        } else if (rows < data().tokens.size()) {
            m_result.unsaid.push_back(std::to_string(data().tokens.size() - rows)
                                      + " tokens beyond the rows of the embeddings, which are left out");
            data().tokens.resize(rows);
            data().kinds.resize(rows);
        }
    }

    void addScoresAndMerges()
    {
        if (data().model == ggufUnigram) {
            data().scores.assign(m_file.scores.begin(), m_file.scores.end());
            data().scores.resize(data().tokens.size(), unusedScore);
            return;
        }
        if (data().model == ggufSentencePiece)
            scoreMerges();
        else
            data().merges = ggufMergesOf(m_file);
    }

    /// The rank of the first merge that makes a token is its score, as it was before the merges were listed.
    void scoreMerges()
    {
        data().scores.assign(data().tokens.size(), unusedScore);
        std::vector<bool> made(data().tokens.size());
        std::size_t previous = data().tokens.size();
        float score = 0;
        std::string split;
        const std::string_view parts = m_file.mergeParts;
        for (const TokenizerFile::Merge &merge : m_file.merges) {
            const auto found = m_ids.find(std::string(parts.substr(merge.begin, merge.leftBytes + merge.rightBytes)));
            if (found == m_ids.end() || found->second >= made.size() || found->second == previous)
                continue;
            previous = found->second;
            const bool searched = data().kinds[previous] == TokenKind::UserDefined; // whole, before anything merges
            if (made[previous] && !searched && split.empty())
                split = found->first;
            if (!made[previous])
                data().scores[previous] = searched ? unusedScore : score--;
            made[previous] = true;
        }
        for (std::size_t id = 0; id < made.size(); ++id) {
            if (data().kinds[id] == TokenKind::Byte)
                data().scores[id] = 0;
        }
        if (!split.empty())
            m_result.unsaid.push_back("the order of merges, which make " + inQuotes(split)
                                      + " before and after other tokens");
    }

    void addSpecial(const Tokenizer &tokenizer)
    {
        const auto inside = [&](std::optional<int> id) {
            return id && static_cast<std::size_t>(*id) < data().tokens.size() ? id : std::nullopt;
        };
        data().bos = inside(tokenizer.bos());
        data().eos = inside(tokenizer.eos());
        data().pad = inside(tokenOf("pad_token"));
        if (!data().unk)
            data().unk = inside(tokenOf("unk_token"));
        const std::vector<int> around = tokenizer.encode("", {true, false});
        const bool first = data().bos && !around.empty() && around.front() == *data().bos;
        const bool last = data().eos && around.size() > (first ? 1U : 0U) && around.back() == *data().eos;
        data().addBos = data().bos && configFlag("add_bos_token").value_or(first);
        data().addEos = data().eos && configFlag("add_eos_token").value_or(last);
        std::vector<int> said;
        if (*data().addBos)
            said.push_back(*data().bos);
        if (*data().addEos)
            said.push_back(*data().eos);
        if (around != said)
            m_result.unsaid.emplace_back(configFlag("add_bos_token") || configFlag("add_eos_token")
                                             ? "the post_processor, which tokenizer_config.json contradicts,"
                                             : "the post_processor");
    }

    [[nodiscard]] std::optional<bool> configFlag(const char *key) const
    {
        const auto found = m_files.config.find(key);
        return found != m_files.config.end() && found->is_boolean() ? std::optional(found->get<bool>()) : std::nullopt;
    }

    /// "<s>" or {"content": "<s>"}
    [[nodiscard]] std::optional<int> tokenOf(const char *key) const
    {
        const auto found = m_files.config.find(key);
        if (found == m_files.config.end())
            return std::nullopt;
        const std::string text = found->is_object() ? textAt(*found, "content") : textAt(m_files.config, key);
        const auto id = m_ids.find(text);
        return id != m_ids.end() ? std::optional(static_cast<int>(id->second)) : std::nullopt;
    }

    static constexpr float unusedScore = -1e6F; ///< below every merge

    const Tokenizer *m_tokenizer = nullptr;
    const FolderTokenizerFiles &m_files;
    const TokenizerFile &m_file;
    const Json &m_model;
    std::int64_t m_rows;
    GgufVocabulary m_result;
    std::unordered_map<std::string, std::size_t> m_ids;
};

} // namespace

GgufVocabulary ggufVocabularyOf(const FolderTokenizerFiles &files, const Tokenizer &tokenizer,
                                std::string_view architecture, const std::string &name, std::int64_t rows)
{
    try {
        return Maker(files, rows).make(tokenizer, architecture, name);
    } catch (const Json::exception &error) {
        refuse(files, std::string("is no tokenizer that can be read: ") + error.what());
    }
}

std::vector<std::string> ggufMergesOf(const TokenizerFile &tokenizer)
{
    std::vector<std::string> merges;
    merges.reserve(tokenizer.merges.size());
    const std::string_view parts = tokenizer.mergeParts;
    for (const TokenizerFile::Merge &merge : tokenizer.merges) {
        std::string text(parts.substr(merge.begin, merge.leftBytes));
        text += ' ';
        text += parts.substr(merge.begin + merge.leftBytes, merge.rightBytes);
        merges.push_back(std::move(text));
    }
    return merges;
}

std::string tokenizerStepsOf(const FolderTokenizerFiles &files)
{
    Json steps = Json::object();
    for (const auto &[key, value] : files.tokenizer.rest.items()) {
        if (key != "truncation" && key != "padding")
            steps[key] = value;
    }
    std::unordered_set<std::string_view> words;
    for (const TokenizerFile::VocabularyEntry &entry : files.tokenizer.vocabulary)
        words.insert(files.tokenizer.spelling(entry));
    Json outside = Json::array();
    Json &added = steps["added_tokens"];
    if (!added.is_array())
        added = Json::array();
    for (const auto &[text, id] : files.added.items()) {
        const bool known = words.contains(text)
            || std::ranges::any_of(added, [&](const Json &token) { return textAt(token, "content") == text; });
        if (!known)
            added.push_back(Json{{"id", id}, {"content", text}, {"normalized", true}});
    }
    for (const Json &token : added) {
        if (!words.contains(textAt(token, "content")))
            outside.push_back(token.at("id"));
    }
    steps["outside_model"] = std::move(outside);
    return steps.dump();
}

} // namespace engine
