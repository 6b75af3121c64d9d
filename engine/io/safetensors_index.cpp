// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/safetensors_index.h"

#include "engine/core/file_bytes.h"
#include "engine/core/json.h"
#include "engine/core/printable.h"

#include <algorithm>
#include <map>

namespace engine {
namespace {

constexpr std::size_t maxIndexBytes = 64U << 20U; // the largest published ones have 9 MB
constexpr std::size_t maxFiles = 10000;
constexpr int maxDepth = 16;

/// Takes `weight_map` out of the events and reads over everything else.
class IndexBuilder : public nlohmann::json_sax<Json> {
public:
    [[nodiscard]] const std::string &fault() const { return m_fault; }
    [[nodiscard]] bool hasMap() const { return m_hasMap; }

    /// File numbers in the order of their names.
    [[nodiscard]] SafetensorsIndex take()
    {
        SafetensorsIndex index;
        for (auto &[name, number] : m_files) {
            number = static_cast<int>(index.files.size());
            index.files.push_back(name);
        }
        for (auto &[tensor, file] : m_map)
            index.fileOf.emplace(tensor, m_files.at(file));
        return index;
    }

    bool null() override { return other("null"); }
    bool boolean(bool value) override { return other(value ? "true" : "false"); }
    bool number_integer(number_integer_t value) override { return other(std::to_string(value)); }
    bool number_unsigned(number_unsigned_t value) override { return other(std::to_string(value)); }
    bool number_float(number_float_t, const string_t &text) override { return other(printable(text, 40)); }
    bool string(string_t &value) override
    {
        if (!m_inMap)
            return other(inQuotes(value, 40));
        if (!checkFileName(value))
            return false;
        m_files.emplace(value, 0);
        if (m_files.size() > maxFiles)
            return fail("weight_map names too many shards, wanted at most " + std::to_string(maxFiles));
        if (!m_map.emplace(m_key, value).second)
            return fail("weight_map: the tensor " + inQuotes(m_key) + " is a duplicate, wanted every name once");
        return true;
    }
    bool binary(binary_t &) override { return false; }
    bool start_object(std::size_t) override
    {
        if (m_depth == 1 && m_key == "weight_map") {
            if (m_hasMap)
                return fail("the key weight_map is a duplicate, wanted it once");
            m_hasMap = m_inMap = true;
            return open();
        }
        return (m_depth == 0 || other("an object")) && open();
    }
    bool start_array(std::size_t) override
    {
        if (m_depth == 0)
            return fail("the index is a list, wanted an object with the key weight_map");
        return other("a list") && open();
    }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool key(string_t &value) override
    {
        m_key = std::move(value);
        return true;
    }
    bool parse_error(std::size_t position, const std::string &, const nlohmann::detail::exception &error) override
    {
        return fail("not valid JSON at byte " + std::to_string(position) + ": "
                    + printable(jsonFault(error.what()), 120));
    }

private:
    bool fail(std::string text)
    {
        m_fault = std::move(text);
        return false;
    }
    /// A value that is no text.
    bool other(const std::string &found)
    {
        if (m_inMap)
            return fail("weight_map: the shard of tensor " + inQuotes(m_key) + " is " + found
                        + ", which must be a string");
        if (m_depth == 0)
            return fail("the index is " + found + ", wanted an object with the key weight_map");
        if (m_depth == 1 && m_key == "weight_map")
            return fail("weight_map is " + found + ", which must be an object of strings");
        return true;
    }
    bool open() { return ++m_depth <= maxDepth || fail("nested deeper than " + std::to_string(maxDepth) + " levels"); }
    bool close()
    {
        --m_depth;
        m_inMap = false; // nothing opens inside of it
        return true;
    }
    bool checkFileName(const std::string &name)
    {
        constexpr std::string_view ending = ".safetensors";
        const bool plain = name.find_first_of("/\\:") == std::string::npos && printable(name, name.size()) == name
            && name.size() > ending.size() && name.size() <= 255 && name.front() != '.' && name.ends_with(ending);
        return plain
            || fail("weight_map: the shard name " + inQuotes(name) + " of tensor " + inQuotes(m_key)
                    + " is refused, wanted a plain file name in the index's own folder that ends in .safetensors");
    }

    std::map<std::string, int> m_files;
    std::unordered_map<std::string, std::string> m_map;
    std::string m_key;
    std::string m_fault;
    int m_depth = 0;
    bool m_inMap = false;
    bool m_hasMap = false;
};

} // namespace

SafetensorsIndex readSafetensorsIndex(const std::string &path)
{
    const std::string text = readFileBytes(path, maxIndexBytes);
    const auto refuse = [&path](const std::string &problem) {
        throw Error(ErrorCode::Refused, inQuotes(path) + ": " + problem);
    };
    if (text.empty())
        refuse("the file is empty, wanted a JSON object with the key weight_map");
    IndexBuilder builder;
    if (!Json::sax_parse(text.begin(), text.end(), &builder))
        refuse(builder.fault());
    if (!builder.hasMap())
        refuse("the key weight_map is missing, so this is no index of safetensors files");
    SafetensorsIndex index = builder.take();
    if (index.files.empty())
        refuse("weight_map is empty, wanted the shard of every tensor");
    return index;
}

} // namespace engine
