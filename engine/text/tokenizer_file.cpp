// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/tokenizer_file.h"

#include "engine/api/error.h"
#include "engine/text/utf8.h"

#include <charconv>
#include <limits>
#include <optional>
#include <utility>

namespace engine {
namespace {

constexpr std::size_t deepest = 64;
constexpr std::size_t largestText = std::numeric_limits<std::uint32_t>::max();

/// Where a value goes.
enum class Route { Tree, Vocabulary, VocabularyList, Merges, Skipped };

double powerOfTen(int exponent)
{
    const std::string text = "1e" + std::to_string(exponent);
    double value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

/// A score of a Unigram model as the library of these files rounds it, with its digits as an integer first: of ways
/// through a word that are equal otherwise, the last bit of a sum decides. `exact`: the same number rounded at once.
/// Source: serde-rs/json, src/de.rs.
double scoreOf(std::string_view text, double exact)
{
    constexpr int largestPower = 308;
    std::uint64_t digits = 0;
    int exponent = 0;
    const bool negative = text.starts_with('-');
    std::size_t at = negative ? 1 : 0;
    bool behindPoint = false;
    for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
        if (text[at] == '.') {
            behindPoint = true;
            continue;
        }
        const auto digit = static_cast<std::uint64_t>(text[at] - '0');
        if (digits > (std::numeric_limits<std::uint64_t>::max() - digit) / 10) {
            if (!behindPoint)
                return exact;
            continue; // further digits do not count
        }
        digits = digits * 10 + digit;
        exponent -= behindPoint ? 1 : 0;
    }
    if (at < text.size()) {
        int given = 0;
        at += text[at + 1] == '+' ? 2 : 1;
        std::from_chars(text.data() + at, text.data() + text.size(), given);
        exponent += given;
    }
    if (exponent > largestPower || exponent < -largestPower)
        return exact;
    const double power = powerOfTen(exponent < 0 ? -exponent : exponent);
    const auto whole = static_cast<double>(digits);
    const double value = exponent < 0 ? whole / power : whole * power;
    return negative ? -value : value;
}

/// Sorts parser events: large members into flat arrays, the rest into a tree.
class FileReader : public nlohmann::json_sax<Json> {
public:
    /// `skippedKey`: a member of the outermost object that is read over.
    explicit FileReader(std::string skippedKey)
        : m_skippedKey(std::move(skippedKey))
    {
    }

    TokenizerFile file;
    std::string fault;

    bool null() override { return scalar(nullptr); }
    bool boolean(bool value) override { return scalar(value); }
    bool number_integer(number_integer_t value) override { return integer(value); }
    bool number_unsigned(number_unsigned_t value) override
    {
        if (m_route == Route::Vocabulary && value > static_cast<number_unsigned_t>(std::numeric_limits<int>::max()))
            return fail("model.vocab: id " + std::to_string(value) + " of " + utf8::quoted(m_key) + " is too large");
        return integer(value);
    }
    bool number_float(number_float_t value, const string_t &text) override
    {
        return scalar(m_route == Route::VocabularyList ? scoreOf(text, value) : value);
    }
    bool string(string_t &value) override
    {
        return m_route == Route::Merges ? mergeText(value) : scalar(std::move(value));
    }
    bool binary(binary_t &) override { return false; }
    bool start_object(std::size_t) override { return open(Json::object()); }
    bool start_array(std::size_t) override { return open(Json::array()); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool key(string_t &value) override;
    bool parse_error(std::size_t position, const std::string &, const nlohmann::detail::exception &error) override
    {
        std::string text = error.what();
        if (const auto start = text.find("parse error"); start != std::string::npos)
            text = text.substr(start);
        constexpr std::size_t enough = 200; // the parser quotes what it has read, up to a whole file
        return fail("not valid JSON at byte " + std::to_string(position) + ": "
                    + utf8::repaired(std::string_view(text).substr(0, enough)));
    }

private:
    bool fail(std::string text)
    {
        fault = std::move(text);
        return false;
    }
    template<typename Value> bool integer(Value value)
    {
        return m_route == Route::Vocabulary && m_depth == m_routeDepth ? vocabularyId(static_cast<std::int64_t>(value))
                                                                       : scalar(value);
    }
    bool vocabularyId(std::int64_t id);
    bool addSpelling(const std::string &text, std::int64_t id);
    void listValue(const Json &value);
    void listEntry();
    bool mergeText(const std::string &text);
    bool addMerge(std::string_view left, std::string_view right);
    bool scalar(Json value);
    bool open(Json value);
    bool close();
    bool enter(const Json &value);
    bool place(Json value);
    [[nodiscard]] Route routeOf(const std::string &key) const;

    std::string m_skippedKey;
    std::vector<Json *> m_stack; ///< open containers of the tree; one never moves while it is open
    std::vector<std::string> m_keys;
    std::string m_key; ///< the last one, in a vocabulary
    Route m_route = Route::Tree;
    Route m_pending = Route::Tree; ///< of the value that comes next
    std::size_t m_depth = 0;       ///< open containers, all of them
    std::size_t m_routeDepth = 0;  ///< m_depth inside the routed container
    std::vector<std::string> m_pair;
    bool m_inPair = false;
    int m_listMembers = 0; ///< seen of an entry of a vocabulary that is a list
    double m_score = 0;
};

Route FileReader::routeOf(const std::string &key) const
{
    if (m_stack.size() == 1 && !m_skippedKey.empty() && key == m_skippedKey)
        return Route::Skipped;
    if (m_stack.size() == 2 && m_keys.front() == "model" && m_skippedKey.empty()) {
        if (key == "vocab")
            return Route::Vocabulary;
        if (key == "merges")
            return Route::Merges;
    }
    return Route::Tree;
}

bool FileReader::key(string_t &value)
{
    if (m_route == Route::Vocabulary)
        m_key = std::move(value);
    if (m_route != Route::Tree)
        return true;
    if (m_stack.back()->contains(value))
        return fail("duplicate key " + utf8::quoted(value));
    m_pending = routeOf(value);
    if ((m_pending == Route::Vocabulary && file.hasVocabulary) || (m_pending == Route::Merges && file.hasMerges))
        return fail("duplicate key \"model." + value + "\"");
    m_keys.back() = std::move(value);
    return true;
}

bool FileReader::vocabularyId(std::int64_t id)
{
    if (id < 0)
        return fail("model.vocab: id " + std::to_string(id) + " of " + utf8::quoted(m_key) + " must not be negative");
    return addSpelling(m_key, id);
}

bool FileReader::addSpelling(const std::string &text, std::int64_t id)
{
    if (file.spellings.size() + text.size() > largestText)
        return fail("model.vocab: the spellings are too large, more than 4 GiB together");
    file.vocabulary.push_back(
        {static_cast<std::uint32_t>(file.spellings.size()), static_cast<std::uint32_t>(text.size()), id});
    file.spellings += text;
    return true;
}

/// A member of an entry [piece, score], or something else that stands where an entry should.
void FileReader::listValue(const Json &value)
{
    const bool member = m_depth == m_routeDepth + 1;
    const bool wanted = member && m_listMembers < 2 && (m_listMembers == 0 ? value.is_string() : value.is_number());
    m_listMembers += member ? 1 : 0;
    if (!wanted && file.listFault.empty())
        file.listFault = "entry " + std::to_string(file.vocabulary.size()) + " must be a pair of text and score";
    if (!wanted || !file.listFault.empty())
        return;
    if (value.is_string())
        m_key = value.get<std::string>();
    else
        m_score = value.get<double>();
}

void FileReader::listEntry()
{
    if (m_listMembers != 2 && file.listFault.empty())
        file.listFault = "entry " + std::to_string(file.vocabulary.size()) + " must be a pair of text and score";
    m_listMembers = 0;
    if (!file.listFault.empty())
        return;
    if (!addSpelling(m_key, static_cast<std::int64_t>(file.vocabulary.size())))
        file.listFault = fault;
    file.scores.push_back(m_score);
}

bool FileReader::mergeText(const std::string &text)
{
    if (m_inPair) {
        m_pair.push_back(text);
        return true;
    }
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || space == 0 || space + 1 == text.size()
        || text.find(' ', space + 1) != std::string::npos)
        return fail("model.merges: merge " + std::to_string(file.merges.size()) + ", " + utf8::quoted(text)
                    + ", is not a pair of two parts with a space between");
    const std::string_view all = text;
    return addMerge(all.substr(0, space), all.substr(space + 1));
}

bool FileReader::addMerge(std::string_view left, std::string_view right)
{
    if (file.mergeParts.size() + left.size() + right.size() > largestText)
        return fail("model.merges: the parts are too large, more than 4 GiB together");
    file.merges.push_back({static_cast<std::uint32_t>(file.mergeParts.size()), static_cast<std::uint32_t>(left.size()),
                           static_cast<std::uint32_t>(right.size())});
    file.mergeParts += left;
    file.mergeParts += right;
    return true;
}

bool FileReader::scalar(Json value)
{
    const auto found = [&] {
        return ", found " + utf8::repaired(value.dump(-1, ' ', true, Json::error_handler_t::replace));
    };
    switch (m_route) {
    case Route::Tree:
        if (const Route pending = std::exchange(m_pending, Route::Tree); pending == Route::Vocabulary)
            return fail("model.vocab must be an object of ids by text" + found());
        else if (pending == Route::Merges)
            return fail("model.merges must be a list of pairs" + found());
        else if (pending == Route::Skipped)
            return true;
        return place(std::move(value));
    case Route::Vocabulary:
        return fail("model.vocab: the id of " + utf8::quoted(m_key) + " must be an integer" + found());
    case Route::Merges:
        return fail("model.merges: merge " + std::to_string(file.merges.size()) + " must be two strings" + found());
    case Route::VocabularyList:
        listValue(value);
        return true;
    case Route::Skipped:
        return true;
    }
    return false;
}

bool FileReader::enter(const Json &value)
{
    m_route = std::exchange(m_pending, Route::Tree);
    m_routeDepth = m_depth;
    if (m_route == Route::Vocabulary) {
        file.hasVocabulary = true;
        file.vocabularyIsList = value.is_array();
        if (file.vocabularyIsList)
            m_route = Route::VocabularyList;
    } else if (m_route == Route::Merges) {
        file.hasMerges = true;
        if (!value.is_array())
            return fail("model.merges must be a list of pairs, found an object");
    }
    return true;
}

bool FileReader::open(Json value)
{
    if (++m_depth > deepest)
        return fail((m_keys.empty() ? std::string("the text") : utf8::quoted(m_keys.front()))
                    + " is nested deeper than " + std::to_string(deepest) + " levels");
    switch (m_route) {
    case Route::Tree:
        return m_pending != Route::Tree ? enter(value) : place(std::move(value));
    case Route::Vocabulary:
        return fail("model.vocab: the id of " + utf8::quoted(m_key) + " must be an integer, found a list or an object");
    case Route::Merges:
        if (m_inPair || !value.is_array())
            return fail("model.merges: merge " + std::to_string(file.merges.size()) + " must be two strings");
        m_inPair = true;
        return true;
    case Route::VocabularyList:
        if (m_depth > m_routeDepth + 1 || !value.is_array())
            listValue(value);
        return true;
    case Route::Skipped:
        return true;
    }
    return false;
}

bool FileReader::close()
{
    --m_depth;
    if (m_route == Route::Tree) {
        m_stack.pop_back();
        m_keys.pop_back();
    } else if (m_depth < m_routeDepth) {
        m_route = Route::Tree;
    } else if (m_route == Route::VocabularyList) {
        if (m_depth == m_routeDepth)
            listEntry();
    } else if (m_inPair) {
        m_inPair = false;
        const std::vector<std::string> pair = std::exchange(m_pair, {});
        if (pair.size() != 2)
            return fail("model.merges: merge " + std::to_string(file.merges.size()) + " is not a pair, found "
                        + std::to_string(pair.size()) + " parts");
        return addMerge(pair[0], pair[1]);
    }
    return true;
}

bool FileReader::place(Json value)
{
    const bool container = value.is_structured();
    Json *placed = &file.rest;
    if (m_stack.empty()) {
        file.rest = std::move(value);
    } else if (Json &parent = *m_stack.back(); parent.is_array()) {
        parent.push_back(std::move(value));
        placed = &parent.back();
    } else {
        placed = &(parent[m_keys.back()] = std::move(value));
    }
    if (container) {
        m_stack.push_back(placed);
        m_keys.emplace_back();
    }
    return true;
}

TokenizerFile read(std::string_view text, const char *skippedKey, const std::string &what)
{
    if (text.empty())
        throw Error(ErrorCode::Refused, what + ": the file is empty, not JSON");
    FileReader reader{skippedKey};
    if (!Json::sax_parse(text.begin(), text.end(), &reader))
        throw Error(ErrorCode::Refused, what + ": " + reader.fault);
    if (!reader.file.rest.is_object())
        throw Error(ErrorCode::Refused, what + ": the JSON text must be an object");
    return std::move(reader.file);
}

} // namespace

TokenizerFile readTokenizerFile(std::string_view text)
{
    return read(text, "", "tokenizer");
}

Json readTokenizerConfig(std::string_view text)
{
    return read(text, "added_tokens_decoder", "tokenizer_config.json beside it").rest;
}

} // namespace engine
