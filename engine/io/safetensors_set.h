// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/mapped_file.h"
#include "engine/io/safetensors_reader.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace engine {

struct SafetensorsIndex;

/// The safetensors files of one model, mapped, with every tensor's place checked.
///
/// Thread: immutable after open, except releasePages. \throws Error Refused or IoError
class SafetensorsSet {
public:
    struct Entry {
        SafetensorsTensor tensor;
        int file = 0;
    };

    /// Of a folder: the set that its index names, else model.safetensors, else a whole set of numbered files, else
    /// the only .safetensors file that it has. Empty (no files) where there is none.
    [[nodiscard]] static std::unique_ptr<SafetensorsSet> openFolder(const std::string &folder);
    [[nodiscard]] static std::unique_ptr<SafetensorsSet> openFile(const std::string &path);
    /// Files that lack a tensor which the index gives them, or hold one that it does not, are refused.
    [[nodiscard]] static std::unique_ptr<SafetensorsSet> openIndex(const std::string &path);

    [[nodiscard]] const std::vector<Entry> &entries() const { return m_entries; }
    /// Null when no file has a tensor of that name.
    [[nodiscard]] const Entry *find(std::string_view name) const;
    /// In the mapping; reading them can never raise SIGBUS.
    [[nodiscard]] std::span<const std::byte> bytes(const Entry &entry) const;
    [[nodiscard]] const std::string &filePath(const Entry &entry) const { return fileOf(entry).path(); }
    [[nodiscard]] std::uint64_t fileBytes() const;
    [[nodiscard]] const std::vector<std::pair<std::string, std::string>> &metadata() const { return m_metadata; }
    [[nodiscard]] const std::vector<std::string> &warnings() const { return m_warnings; }
    /// As Checkpoint::checkUnchanged, over all files.
    [[nodiscard]] std::string checkUnchanged() const;
    void releasePages(const Entry &entry) const;

private:
    SafetensorsSet() = default;
    void addFile(const std::string &path);
    void addNames();
    void checkIndex(const std::string &path, const SafetensorsIndex &index) const;
    [[nodiscard]] const MappedFile &fileOf(const Entry &entry) const
    {
        return *m_files.at(static_cast<std::size_t>(entry.file));
    }
    static std::unique_ptr<SafetensorsSet> openFiles(const std::vector<std::string> &paths);

    std::vector<std::unique_ptr<MappedFile>> m_files;
    std::vector<Entry> m_entries;
    std::unordered_map<std::string_view, std::size_t> m_byName; ///< views into m_entries
    std::vector<std::pair<std::string, std::string>> m_metadata;
    std::vector<std::string> m_warnings;
};

} // namespace engine
