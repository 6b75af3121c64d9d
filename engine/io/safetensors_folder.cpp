// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/safetensors_folder.h"

#include "engine/core/printable.h"
#include "engine/io/refusal.h"
#include "engine/io/shard_name.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace engine {
namespace {

namespace fs = std::filesystem;

constexpr const char *extension = ".safetensors";
constexpr const char *singleName = "model.safetensors";
constexpr const char *indexName = "model.safetensors.index.json";

std::vector<std::string> filesOf(const std::string &folder)
{
    std::error_code failure;
    std::vector<std::string> names;
    fs::directory_iterator entry(folder, failure);
    for (const fs::directory_iterator end; !failure && entry != end; entry.increment(failure)) {
        if (entry->path().extension() == extension)
            names.push_back(entry->path().filename().string());
    }
    if (failure)
        throw Error(ErrorCode::IoError, "cannot list the folder " + inQuotes(folder) + ": " + failure.message());
    std::sort(names.begin(), names.end());
    return names;
}

/// The files of a set that has no index: all numbered alike.
std::vector<std::string> numberedFiles(const std::string &folder, const std::vector<std::string> &names)
{
    std::vector<ShardName> shards;
    for (const std::string &name : names) {
        if (auto shard = parseShardName(name, extension))
            shards.push_back(*shard);
    }
    if (shards.empty())
        return {};
    const ShardName &first = shards.front();
    for (const ShardName &other : shards) {
        if (other.prefix != first.prefix || other.count != first.count || other.number < 1
            || other.number > other.count)
            refuseFile(folder,
                       "holds files of more than one set, such as " + inQuotes(first.path(first.number)) + " and "
                           + inQuotes(other.path(other.number)) + ", and no " + indexName
                           + " that says which is meant");
    }
    std::vector<std::string> paths;
    for (int number = 1; number <= first.count; ++number)
        paths.push_back((fs::path(folder) / first.path(number)).string());
    refuseMissingFiles(folder, paths);
    return paths;
}

} // namespace

void refuseMissingFiles(const std::string &origin, const std::vector<std::string> &paths)
{
    std::string missing;
    std::size_t count = 0;
    for (const std::string &path : paths) {
        std::error_code ignored;
        if (fs::exists(path, ignored))
            continue;
        if (++count <= 3)
            missing += (missing.empty() ? "" : ", ") + inQuotes(fs::path(path).filename().string());
    }
    if (count > 0)
        refuseFile(origin,
                   "wants " + std::to_string(paths.size()) + " shard files, but " + std::to_string(count)
                       + " of them are missing: " + missing + (count > 3 ? " and more" : ""));
}

SafetensorsFolder findSafetensors(const std::string &folder)
{
    const std::vector<std::string> names = filesOf(folder);
    const auto has = [&names](const char *name) { return std::find(names.begin(), names.end(), name) != names.end(); };
    SafetensorsFolder found;
    std::error_code ignored;
    if (const fs::path index = fs::path(folder) / indexName; fs::exists(index, ignored)) {
        found.index = index.string();
        return found;
    }
    if (has(singleName)) {
        found.files = {(fs::path(folder) / singleName).string()};
        return found;
    }
    found.files = numberedFiles(folder, names);
    if (!found.files.empty())
        found.warning = std::string("the folder has no ") + indexName + ": the numbered files are taken as one set";
    else if (names.size() == 1)
        found.files = {(fs::path(folder) / names.front()).string()};
    else if (!names.empty())
        refuseFile(folder,
                   "holds " + std::to_string(names.size()) + " safetensors files, such as " + inQuotes(names.front())
                       + ", and neither " + singleName + " nor " + indexName + " that says which is the model");
    return found;
}

void refuseExtraFiles(const std::string &folder, const std::vector<std::string> &indexed)
{
    for (const std::string &name : filesOf(folder)) {
        const bool known = std::find(indexed.begin(), indexed.end(), name) != indexed.end();
        if (known || (name != singleName && !parseShardName(name, extension)))
            continue;
        refuseFile((fs::path(folder) / name).string(),
                   std::string("is an extra shard: ") + indexName
                       + " beside it does not name it, wanted a folder with one set of weights");
    }
}

} // namespace engine
