// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/core/json.h"
#include "engine/text/json_text.h"
#include "engine/text/json_values.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace engine {

/// A schema on its way to a grammar: makes a rule of every part of it that is met; parts wait in a list, so that
/// nothing recurses. \pre the schema outlives this
class SchemaCompiler {
public:
    explicit SchemaCompiler(const Json &root)
        : m_root(root)
        , m_values(m_grammar)
        , m_texts(m_grammar)
    {
    }

    [[nodiscard]] Grammar compile();

private:
    using Tags = std::vector<std::string>; ///< members that tell an object from others, so that they must be there
    struct Part {
        const Json *schema = nullptr;
        std::string place; ///< "#/properties/name"
        Tags tags;
        Grammar::Rule rule;

        [[nodiscard]] const Json *find(const char *key) const;
        [[nodiscard]] bool has(const char *key) const { return find(key) != nullptr; }
    };
    using Counts = std::pair<std::int64_t, std::optional<std::int64_t>>; ///< least and most

    [[noreturn]] static void refuse(const std::string &place, const std::string &why);
    int ruleOf(const Json &schema, const std::string &place, const Tags &tags = {});
    void build(const Part &part);
    static void checkKeywords(const Part &part);
    /// What a reference leads to, with its place.
    std::pair<const Json *, std::string> target(const Json &ref, const std::string &place);
    /// The same for a schema that need not be a reference.
    const Json &resolved(const Json &schema, const std::string &place);
    static Counts counts(const Part &part, const char *least, const char *most);

    // Values.
    void addLiteral(const Part &part, const Json &value);
    void addEnum(const Part &part);
    void addAlternatives(const Part &part, const std::string &key);
    void addTypes(const Part &part);
    void addType(const Part &part, const std::string &type);
    void addWords(const Part &part, std::initializer_list<const char *> words);
    void addInteger(const Part &part);
    void addNumber(const Part &part);
    void addString(const Part &part);
    void addCounted(const Part &part, const Counts &limits);
    /// What pattern, format and the lengths beside them say of a string; nothing without any of the first two.
    std::optional<TextLanguage> languageOf(const Part &part);
    const TextLanguage &patternOf(const Json &pattern);
    const TextLanguage &formatOf(const Json &format);

    // Alternatives of which only one may fit.
    using Kinds = std::map<std::string, std::vector<std::string>>; ///< by type, its constants or "*" for all values
    std::string tagOf(const Part &part, const Json &list);
    void collectKinds(const Json &schema, const std::string &place, int depth, Kinds &kinds);
    Tags tagNames(const Json &schema, const std::string &place, int depth);
    std::vector<std::string> tagValues(const Json &schema, const std::string &name, const std::string &place,
                                       int depth);
    bool tells(const std::string &name, const std::vector<const Json *> &objects, const std::string &place);

    // Lists and objects.
    class Tracks;
    struct Member {
        std::string name;
        int rule = 0;
        bool required = false;
    };
    struct Others {
        TextLanguage keys;
        int rule = 0;
    };
    void addArray(const Part &part);
    void addDistinct(const Part &part, const Counts &limits);
    void addObject(const Part &part);
    std::optional<Tags> listedNames(const Part &part);
    std::optional<TextLanguage> nameLanguage(const Part &part);
    std::vector<Others> patternMembers(const Part &part);
    std::vector<Member> namedMembers(const Part &part, const std::vector<Others> &patterns);
    int ruleOfOther(const Part &part);
    std::vector<std::pair<int, int>> otherMembers(const Part &part, const std::vector<Member> &named,
                                                  std::vector<Others> patterns);

    const Json &m_root;
    Grammar m_grammar;
    JsonValues m_values;
    JsonTexts m_texts;
    std::map<std::pair<const Json *, Tags>, int> m_rules;
    std::vector<Part> m_open;
    TextBudget m_budget;
    std::map<std::string, TextLanguage> m_patterns; // that were met, by their text
    std::map<std::string, TextLanguage> m_formats;
};

/// A value as it stands in grammars and, cut, in messages.
[[nodiscard]] std::string schemaText(const Json &value);

} // namespace engine
