// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/safetensors_set.h"

#include "engine/core/printable.h"
#include "engine/io/refusal.h"
#include "engine/io/safetensors_folder.h"
#include "engine/io/safetensors_index.h"

#include <algorithm>
#include <filesystem>

namespace engine {
namespace {

namespace fs = std::filesystem;

/// "“a” in “file”" of up to three names, with how many more there are.
std::string someOf(const std::vector<std::string> &names)
{
    std::string text;
    for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 3); ++i)
        text += (i == 0 ? "" : ", ") + names[i];
    return names.size() > 3 ? text + " and " + std::to_string(names.size() - 3) + " more" : text;
}

} // namespace

std::unique_ptr<SafetensorsSet> SafetensorsSet::openFiles(const std::vector<std::string> &paths)
{
    std::unique_ptr<SafetensorsSet> set(new SafetensorsSet);
    for (const std::string &path : paths)
        set->addFile(path);
    set->addNames();
    return set;
}

std::unique_ptr<SafetensorsSet> SafetensorsSet::openFile(const std::string &path)
{
    return openFiles({path});
}

std::unique_ptr<SafetensorsSet> SafetensorsSet::openIndex(const std::string &path)
{
    const SafetensorsIndex index = readSafetensorsIndex(path);
    const fs::path folder = fs::path(path).parent_path();
    std::vector<std::string> paths;
    for (const std::string &file : index.files)
        paths.push_back((folder / file).string());
    refuseMissingFiles(path, paths);
    refuseExtraFiles(folder.empty() ? std::string(".") : folder.string(), index.files);
    std::unique_ptr<SafetensorsSet> set = openFiles(paths);
    set->checkIndex(path, index);
    return set;
}

std::unique_ptr<SafetensorsSet> SafetensorsSet::openFolder(const std::string &folder)
{
    const SafetensorsFolder found = findSafetensors(folder);
    if (!found.index.empty())
        return openIndex(found.index);
    std::unique_ptr<SafetensorsSet> set = openFiles(found.files);
    if (!found.warning.empty())
        set->m_warnings.push_back(found.warning);
    return set;
}

void SafetensorsSet::addFile(const std::string &path)
{
    auto file = std::make_unique<MappedFile>(path);
    const auto throwIfChanged = [&file] {
        if (const std::string change = file->checkUnchanged(); !change.empty())
            throw Error(ErrorCode::IoError, change);
    };
    SafetensorsHeader header;
    try {
        header = readSafetensors(file->bytes(), path);
    } catch (const Error &) {
        throwIfChanged();
        throw;
    }
    throwIfChanged();
    const int number = static_cast<int>(m_files.size());
    for (SafetensorsTensor &tensor : header.tensors)
        m_entries.push_back({std::move(tensor), number});
    if (number == 0)
        m_metadata = std::move(header.metadata);
    m_files.push_back(std::move(file));
}

void SafetensorsSet::addNames()
{
    m_byName.reserve(m_entries.size());
    for (std::size_t i = 0; i < m_entries.size(); ++i) {
        const auto [other, isNew] = m_byName.emplace(m_entries[i].tensor.name, i);
        if (!isNew)
            refuseFile(filePath(m_entries[i]),
                       "holds the tensor " + inQuotes(m_entries[i].tensor.name)
                           + " a second time: it is a duplicate of the one in "
                           + inQuotes(filePath(m_entries[other->second])));
    }
}

void SafetensorsSet::checkIndex(const std::string &path, const SafetensorsIndex &index) const
{
    std::vector<std::string> missing;
    for (const auto &[tensor, file] : index.fileOf) {
        const Entry *found = find(tensor);
        if (found == nullptr || found->file != file)
            missing.push_back(inQuotes(tensor) + " of " + inQuotes(index.files[static_cast<std::size_t>(file)]));
    }
    std::sort(missing.begin(), missing.end());
    if (!missing.empty())
        refuseFile(path,
                   "names " + std::to_string(missing.size())
                       + " tensors that are missing in the shards it gives them: " + someOf(missing));
    std::vector<std::string> extra;
    for (const Entry &entry : m_entries) {
        if (!index.fileOf.contains(entry.tensor.name))
            extra.push_back(inQuotes(entry.tensor.name) + " of "
                            + inQuotes(index.files[static_cast<std::size_t>(entry.file)]));
    }
    if (!extra.empty())
        refuseFile(path,
                   "does not name " + std::to_string(extra.size())
                       + " extra tensors that its shards hold: " + someOf(extra));
}

const SafetensorsSet::Entry *SafetensorsSet::find(std::string_view name) const
{
    const auto found = m_byName.find(name);
    return found == m_byName.end() ? nullptr : &m_entries[found->second];
}

std::span<const std::byte> SafetensorsSet::bytes(const Entry &entry) const
{
    const std::span<const std::byte> all = fileOf(entry).bytes();
    CHECK(entry.tensor.offset <= all.size() && entry.tensor.bytes <= all.size() - entry.tensor.offset);
    return all.subspan(entry.tensor.offset, entry.tensor.bytes);
}

std::uint64_t SafetensorsSet::fileBytes() const
{
    std::uint64_t total = 0;
    for (const auto &file : m_files)
        total += file->bytes().size();
    return total;
}

std::string SafetensorsSet::checkUnchanged() const
{
    for (const auto &file : m_files) {
        if (std::string change = file->checkUnchanged(); !change.empty())
            return change;
    }
    return {};
}

void SafetensorsSet::releasePages(const Entry &entry) const
{
    fileOf(entry).releasePages(entry.tensor.offset, entry.tensor.bytes);
}

} // namespace engine
