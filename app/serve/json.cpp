// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/serve/json.h"

#include "app/serve/api_error.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

namespace serve {
namespace {

constexpr std::size_t maxDepth = 64;
constexpr std::size_t maxMembers = 4096;   // of one object; its keys are looked up one by one
constexpr std::size_t maxValues = 400'000; // a prompt of ids may be long; a value costs 16 bytes and more

/// Builds a Json from parser events and stops at the first breach of a limit.
class Builder : public nlohmann::json_sax<Json> {
public:
    explicit Builder(Json &root)
        : m_root(root)
    {
    }
    [[nodiscard]] const std::string &fault() const { return m_fault; }
    [[nodiscard]] std::size_t position() const { return m_position; }

    bool null() override { return put(nullptr); }
    bool boolean(bool value) override { return put(value); }
    bool number_integer(number_integer_t value) override { return put(value); }
    bool number_unsigned(number_unsigned_t value) override { return put(value); }
    bool number_float(number_float_t value, const string_t & /*text*/) override { return put(value); }
    bool string(string_t &value) override { return put(std::move(value)); }
    bool binary(binary_t & /*value*/) override { return false; }
    bool start_object(std::size_t /*size*/) override { return open(Json::object()); }
    bool start_array(std::size_t /*size*/) override { return open(Json::array()); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool key(string_t &value) override
    {
        Level &level = m_stack.back();
        if (std::ranges::any_of(value, [](char c) { return static_cast<unsigned char>(c) < 0x20; }))
            return fail("a key holds a control character");
        if (level.keys.size() >= maxMembers)
            return fail("an object has more than " + std::to_string(maxMembers) + " members");
        if (!level.keys.insert(value).second)
            return fail("duplicate key \"" + value.substr(0, 64) + "\"");
        level.key = std::move(value);
        return true;
    }
    bool parse_error(std::size_t position, const std::string & /*token*/,
                     const nlohmann::detail::exception &error) override
    {
        m_position = position;
        m_fault = error.what();
        // Without the library's name of the fault and the place as it counts.
        if (const auto name = m_fault.find("] "); m_fault.starts_with("[json.") && name != std::string::npos)
            m_fault = m_fault.substr(name + 2);
        if (const auto start = m_fault.find(" - "); start != std::string::npos)
            m_fault = m_fault.substr(start + 3);
        m_fault = m_fault.substr(0, m_fault.find("; last read"));
        return false;
    }

private:
    struct Level {
        Json *value = nullptr; ///< a container never moves while it is open
        std::string key;
        std::unordered_set<std::string> keys;
    };

    bool fail(std::string why)
    {
        m_fault = std::move(why);
        return false;
    }
    bool put(Json value) { return place(std::move(value)) != nullptr; }
    Json *place(Json value)
    {
        if (++m_values > maxValues) {
            m_fault = "more than " + std::to_string(maxValues) + " values";
            return nullptr;
        }
        if (m_stack.empty()) {
            m_root = std::move(value);
            return &m_root;
        }
        Level &level = m_stack.back();
        if (level.value->is_array()) {
            level.value->push_back(std::move(value));
            return &level.value->back();
        }
        // The key is known to be new, so nothing need be searched.
        auto &members = level.value->get_ref<Json::object_t &>();
        static_cast<std::vector<std::pair<const std::string, Json>> &>(members).emplace_back(std::move(level.key),
                                                                                             std::move(value));
        return &members.back().second;
    }
    bool open(Json value)
    {
        if (m_stack.size() >= maxDepth)
            return fail("nested deeper than " + std::to_string(maxDepth) + " levels");
        Json *placed = place(std::move(value));
        if (placed)
            m_stack.push_back({placed, {}, {}});
        return placed != nullptr;
    }
    bool close()
    {
        m_stack.pop_back();
        return true;
    }

    Json &m_root;
    std::vector<Level> m_stack;
    std::string m_fault;
    std::size_t m_position = 0;
    std::size_t m_values = 0;
};

} // namespace

Json parseBody(std::string_view body)
{
    if (body.empty())
        throw ApiError(400, "the request body is empty, wanted a JSON object");
    Json root;
    Builder builder(root);
    if (!Json::sax_parse(body.begin(), body.end(), &builder)) {
        std::string message = "the request body is not the JSON wanted";
        if (builder.position() > 0)
            message += " at byte " + std::to_string(builder.position());
        throw ApiError(400, message + ": " + builder.fault());
    }
    if (!root.is_object())
        throw ApiError(400, std::string("the request body is JSON of type ") + root.type_name() + ", wanted an object");
    return root;
}

std::string dump(const Json &value)
{
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

} // namespace serve
