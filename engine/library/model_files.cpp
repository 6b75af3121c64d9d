// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/library/model_files.h"

#include "engine/io/shard_name.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <sys/stat.h>
#include <system_error>

namespace engine {

namespace {

namespace fs = std::filesystem;

constexpr int maxFolderDepth = 32;
constexpr std::string_view extension = ".gguf";

bool hasModelExtension(std::string_view name)
{
    return name.size() > extension.size() && lowerCase(name.substr(name.size() - extension.size())) == extension;
}

class Walk {
public:
    ModelFiles run(const std::string &folder)
    {
        if (enter(folder))
            visit(folder, 0);
        std::sort(m_found.files.begin(), m_found.files.end(), [](const std::string &a, const std::string &b) {
            return std::pair(modelName(a), a) < std::pair(modelName(b), b);
        });
        return std::move(m_found);
    }

private:
    /// True when `folder` exists and has not been entered yet.
    bool enter(const std::string &folder)
    {
        struct stat status = {};
        return stat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode)
            && m_entered.insert({status.st_dev, status.st_ino}).second;
    }

    void visit(const std::string &folder, int depth)
    {
        if (depth > maxFolderDepth) {
            m_found.problems.emplace_back(folder,
                                          "the folder lies deeper than " + std::to_string(maxFolderDepth)
                                              + " folders and is not searched");
            return;
        }
        std::error_code failure;
        fs::directory_iterator entry(folder, failure);
        std::vector<std::string> folders;
        for (const fs::directory_iterator end; !failure && entry != end; entry.increment(failure))
            sortIn(*entry, folders);
        if (failure)
            m_found.problems.emplace_back(folder, "the folder cannot be read: " + failure.message());
        for (const std::string &inner : folders) {
            if (enter(inner))
                visit(inner, depth + 1);
        }
    }

    void sortIn(const fs::directory_entry &entry, std::vector<std::string> &folders)
    {
        std::error_code ignored;
        const std::string path = entry.path().string();
        if (entry.is_directory(ignored)) {
            folders.push_back(path);
            if (isModelFolder(path))
                m_found.files.push_back(path);
        } else if (hasModelExtension(entry.path().filename().string())) {
            const auto shard = parseShardName(path);
            if (!shard || shard->number == 1)
                m_found.files.push_back(path);
        }
    }

    ModelFiles m_found;
    std::set<std::pair<dev_t, ino_t>> m_entered;
};

} // namespace

std::string lowerCase(std::string_view text)
{
    std::string result(text);
    for (char &c : result)
        c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return result;
}

bool isModelFolder(const std::string &path)
{
    std::error_code failure;
    if (!fs::is_regular_file(fs::path(path) / "config.json", failure))
        return false;
    fs::directory_iterator entry(path, failure);
    for (const fs::directory_iterator end; !failure && entry != end; entry.increment(failure)) {
        if (entry->path().extension() == ".safetensors")
            return true;
    }
    return false;
}

std::string modelPathOf(const std::string &path)
{
    const fs::path file = path;
    const std::string name = file.filename().string();
    const bool part =
        name == "config.json" || name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
    const std::string folder = file.parent_path().string();
    return part && !folder.empty() && isModelFolder(folder) ? folder : path;
}

std::string modelName(std::string_view path)
{
    while (path.size() > 1 && path.ends_with('/'))
        path.remove_suffix(1);
    constexpr std::string_view snapshots = "/snapshots/";
    constexpr std::string_view repository = "models--";
    if (const std::size_t at = path.rfind(snapshots); at != std::string_view::npos) {
        const std::string_view outer = path.substr(0, at);
        const std::string_view name = outer.substr(outer.rfind('/') + 1);
        if (name.starts_with(repository) && path.find('/', at + snapshots.size()) == std::string_view::npos)
            return std::string(name.substr(name.rfind("--") + 2));
    }
    const std::string_view file = path.substr(path.rfind('/') + 1);
    return std::string(hasModelExtension(file) ? file.substr(0, file.size() - extension.size()) : file);
}

ModelFiles findModelFiles(const std::string &folder)
{
    return Walk().run(folder);
}

} // namespace engine
