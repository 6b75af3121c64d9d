// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/library/model_store.h"

#include "engine/api/error.h"
#include "engine/core/file_bytes.h"
#include "engine/core/json.h"
#include "engine/core/printable.h"
#include "engine/io/gguf_reader.h"
#include "engine/io/mapped_file.h"
#include "engine/io/safetensors_set.h"
#include "engine/io/shard_name.h"
#include "engine/library/model_files.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <pwd.h>
#include <unistd.h>

namespace engine {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t maxConfigBytes = 16U << 20U;

std::string homeFolder()
{
    if (const char *home = std::getenv("HOME"); home != nullptr && home[0] == '/')
        return home;
    std::array<char, 4096> buffer{};
    passwd entry = {};
    passwd *found = nullptr;
    if (getpwuid_r(getuid(), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr)
        return found->pw_dir;
    return "/";
}

/// Reads one file's header and adds its size to `model`.
Metadata readShard(const std::string &path, InstalledModel &model)
{
    const MappedFile file(path);
    model.bytes += file.bytes().size();
    GgufHeader header = readGguf(file.bytes(), path, ArrayContents::Skip);
    if (const std::string change = file.checkUnchanged(); !change.empty())
        throw Error(ErrorCode::IoError, change);
    return std::move(header.metadata);
}

void examineFiles(InstalledModel &model)
{
    const Metadata metadata = readShard(model.path, model);
    if (const std::string *architecture = metadata.text("general.architecture"))
        model.architecture = repairUtf8(*architecture);
    const auto name = parseShardName(model.path);
    const int named = name ? name->count : 1;
    const std::int64_t declared = std::max<std::int64_t>(metadata.integer("split.count").value_or(1), 1);
    if (declared != named) {
        throw Error(ErrorCode::Refused,
                    inQuotes(model.path) + " has split.count " + std::to_string(declared) + ", but its name stands for "
                        + std::to_string(named) + " shards");
    }
    for (int number = 2; number <= named; ++number)
        readShard(name->path(number), model);
}

/// Headers only, as of the files.
void examineFolder(InstalledModel &model)
{
    model.format = "safetensors";
    const std::string path = (fs::path(model.path) / "config.json").string();
    const Json config = parseJson(readFileBytes(path, maxConfigBytes), path);
    if (const auto type = config.find("model_type"); type != config.end() && type->is_string())
        model.architecture = repairUtf8(type->get<std::string>());
    model.bytes = SafetensorsSet::openFolder(model.path)->fileBytes();
}

InstalledModel examine(const std::string &path)
{
    InstalledModel model;
    model.name = modelName(path);
    model.path = path;
    try {
        std::error_code ignored;
        if (fs::is_directory(path, ignored))
            examineFolder(model);
        else
            examineFiles(model);
    } catch (const std::exception &error) { // one bad file must not hide the others
        model.problem = error.what();
    }
    return model;
}

/// Edit distance between two names, for suggestions. Source: Wagner and Fischer 1974.
std::size_t distance(std::string_view a, std::string_view b)
{
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i + 1;
        for (std::size_t j = 0; j < b.size(); ++j) {
            const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
        }
    }
    return row.back();
}

/// Up to three names that the user may have meant, as the end of a sentence.
std::string closeNames(std::string_view wanted, const std::vector<std::string> &files)
{
    constexpr std::size_t longestCompared = 256; // file names are no longer
    const std::string target = lowerCase(wanted.substr(0, longestCompared));
    std::vector<std::pair<std::size_t, std::string>> ranked;
    for (const std::string &file : files) {
        const std::string name = modelName(file);
        const bool contains = lowerCase(name).find(target) != std::string::npos;
        const std::size_t edits = contains ? 0 : distance(target, lowerCase(name));
        if (contains || edits <= std::max<std::size_t>(2, target.size() / 3))
            ranked.emplace_back(edits, name);
    }
    std::sort(ranked.begin(), ranked.end());
    ranked.erase(std::unique(ranked.begin(), ranked.end()), ranked.end());
    std::string result;
    for (std::size_t i = 0; i < std::min<std::size_t>(ranked.size(), 3); ++i)
        result += (i == 0 ? "; close names: " : ", ") + inQuotes(ranked[i].second);
    return result;
}

template<typename Same>
std::vector<std::string> filesCalled(const std::string &name, const std::vector<std::string> &files, Same same)
{
    std::vector<std::string> matches;
    for (const std::string &file : files) {
        if (same(modelName(file), name))
            matches.push_back(file);
    }
    return matches;
}

std::vector<std::string> matchingFiles(const std::string &name, const std::vector<std::string> &files)
{
    std::vector<std::string> exact = filesCalled(name, files, std::equal_to<>());
    if (!exact.empty())
        return exact;
    return filesCalled(name, files,
                       [](const std::string &a, const std::string &b) { return lowerCase(a) == lowerCase(b); });
}

std::string joined(const std::vector<std::string> &paths)
{
    std::string all;
    for (const std::string &path : paths)
        all += (all.empty() ? "" : ", ") + inQuotes(path);
    return all;
}

bool looksLikePath(const std::string &text)
{
    std::error_code ignored;
    return text.find('/') != std::string::npos || text == "." || text == ".." || fs::is_regular_file(text, ignored);
}

} // namespace

std::string modelFolder()
{
    const char *data = std::getenv("XDG_DATA_HOME");
    const bool usable = data != nullptr && data[0] == '/'; // the XDG specification wants relative values ignored
    return (usable ? std::string(data) : homeFolder() + "/.local/share") + "/lathe/models";
}

std::vector<InstalledModel> listModels(const std::string &folder)
{
    const ModelFiles found = findModelFiles(folder);
    std::vector<InstalledModel> models;
    models.reserve(found.files.size());
    for (const std::string &file : found.files)
        models.push_back(examine(file));
    for (const auto &[path, problem] : found.problems) {
        InstalledModel row;
        row.name = modelName(path);
        row.path = path;
        row.format.clear();
        row.problem = inQuotes(path) + ": " + problem;
        models.push_back(std::move(row));
    }
    return models;
}

std::string resolveModel(const std::string &nameOrPath, const std::string &folder)
{
    if (nameOrPath.empty())
        throw Error(ErrorCode::Refused,
                    "the model name is empty, wanted the path of a .gguf file or of a folder, or the name of an "
                    "installed model");
    if (looksLikePath(nameOrPath))
        return nameOrPath;
    const std::vector<std::string> files = findModelFiles(folder).files;
    const std::vector<std::string> matches = matchingFiles(modelName(nameOrPath), files);
    if (matches.size() == 1)
        return matches.front();
    if (matches.size() > 1)
        throw Error(ErrorCode::Refused,
                    "the model name " + inQuotes(nameOrPath) + " is ambiguous, wanted one of the paths "
                        + joined(matches));
    std::error_code ignored;
    if (fs::exists(nameOrPath, ignored)) // a folder or pipe: who opens it says what is wanted instead
        return nameOrPath;
    throw Error(ErrorCode::Refused,
                "no file and no installed model is called " + inQuotes(nameOrPath) + " (searched in " + inQuotes(folder)
                    + ")" + closeNames(modelName(nameOrPath), files));
}

} // namespace engine
