// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/core/json.h"

#include "engine/core/json_exact.h"

#include <string>
#include <vector>

namespace engine {
namespace {

/// Builds a Json from parser events; refuses deep nesting and duplicate keys at the place where they stand.
class TreeBuilder : public nlohmann::json_sax<Json> {
public:
    TreeBuilder(Json &root, int maxDepth, bool exact)
        : m_root(root)
        , m_maxDepth(maxDepth)
        , m_exact(exact)
    {
    }

    [[nodiscard]] const std::string &fault() const { return m_fault; }
    [[nodiscard]] std::size_t position() const { return m_position; }

    bool null() override { return put(nullptr); }
    bool boolean(bool value) override { return put(value); }
    bool number_integer(number_integer_t value) override { return put(value); }
    bool number_unsigned(number_unsigned_t value) override { return put(value); }
    bool number_float(number_float_t value, const string_t &text) override
    {
        if (m_exact && text.find_first_not_of("-0123456789") == string_t::npos)
            return put(Json::binary(Json::binary_t::container_type(text.begin(), text.end())));
        return put(value);
    }
    bool string(string_t &value) override { return put(std::move(value)); }
    bool binary(binary_t &) override { return false; }
    bool start_object(std::size_t) override { return open(Json::object()); }
    bool start_array(std::size_t) override { return open(Json::array()); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool key(string_t &value) override
    {
        if (m_stack.back()->contains(value)) {
            m_fault = "duplicate key \"" + value + "\"";
            return false;
        }
        m_keys.back() = std::move(value);
        return true;
    }
    bool parse_error(std::size_t position, const std::string &, const nlohmann::detail::exception &error) override
    {
        m_position = position;
        m_fault = error.what();
        if (const auto colon = m_fault.rfind(": "); colon != std::string::npos)
            m_fault = m_fault.substr(colon + 2);
        return false;
    }

private:
    template<typename Value> bool put(Value &&value) { return place(Json(std::forward<Value>(value))) != nullptr; }
    Json *place(Json value)
    {
        if (m_stack.empty()) {
            m_root = std::move(value);
            return &m_root;
        }
        Json &parent = *m_stack.back();
        if (parent.is_array()) {
            parent.push_back(std::move(value));
            return &parent.back();
        }
        return &(parent[m_keys.back()] = std::move(value));
    }
    bool open(Json value)
    {
        if (static_cast<int>(m_stack.size()) >= m_maxDepth) {
            m_fault = "nested deeper than " + std::to_string(m_maxDepth) + " levels";
            return false;
        }
        m_stack.push_back(place(std::move(value)));
        m_keys.emplace_back();
        return true;
    }
    bool close()
    {
        m_stack.pop_back();
        m_keys.pop_back();
        return true;
    }

    Json &m_root;
    int m_maxDepth;
    bool m_exact;                ///< integers beyond 64 bits keep their digits, as binary values
    std::vector<Json *> m_stack; ///< open containers; a container never moves while it is open
    std::vector<std::string> m_keys;
    std::string m_fault;
    std::size_t m_position = 0;
};

Json parsed(std::string_view text, std::string_view what, int maxDepth, bool exact)
{
    Json root;
    TreeBuilder builder(root, maxDepth, exact);
    if (Json::sax_parse(text.begin(), text.end(), &builder))
        return root;
    std::string message = std::string(what) + ": JSON refused";
    if (builder.position() > 0)
        message += " at byte " + std::to_string(builder.position());
    throw Error(ErrorCode::Refused, message + ": " + builder.fault());
}

} // namespace

Json parseJson(std::string_view text, std::string_view what, int maxDepth)
{
    return parsed(text, what, maxDepth, false);
}

Json parseJsonExact(std::string_view text, std::string_view what, int maxDepth)
{
    return parsed(text, what, maxDepth, true);
}

std::string jsonFault(std::string_view parserMessage)
{
    if (const auto start = parserMessage.find(" - "); start != std::string_view::npos)
        parserMessage.remove_prefix(start + 3);
    return std::string(parserMessage.substr(0, parserMessage.find("; last read")));
}

std::string textAt(const Json &object, const char *key)
{
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool flagAt(const Json &object, const char *key, bool otherwise)
{
    const auto found = object.find(key);
    return found != object.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

} // namespace engine
