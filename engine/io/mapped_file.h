// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace engine {

struct MappingSlot;

/// A regular file mapped for reading, whole.
///
/// Reading the mapping can never raise SIGBUS: when a page cannot be read (the file was cut, the disk failed), the
/// fault handler puts zero pages in its place and marks the file as damaged. Faults outside our mappings go to the
/// handler that was installed before.
///
/// Thread: immutable after construction; checkUnchanged and releasePages may be called from any thread.
class MappedFile {
public:
    /// Opens without blocking. \throws Error IoError when the system refuses, Refused when it is no regular file
    explicit MappedFile(const std::string &path);
    ~MappedFile();
    MappedFile(const MappedFile &) = delete;
    MappedFile &operator=(const MappedFile &) = delete;

    [[nodiscard]] const std::string &path() const { return m_path; }
    [[nodiscard]] std::span<const std::byte> bytes() const { return {m_data, m_size}; }
    /// Empty while the file at path() is the one that was opened and every page could be read; else one sentence.
    [[nodiscard]] std::string checkUnchanged() const;
    /// Lets go of the whole pages inside [offset, offset + count); they are read again when needed.
    void releasePages(std::size_t offset, std::size_t count) const;

private:
    struct Identity {
        std::uint64_t device = 0;
        std::uint64_t inode = 0;
        std::int64_t modifiedSeconds = 0;
        std::int64_t modifiedNanoseconds = 0;
        bool operator==(const Identity &) const = default;
    };

    std::string m_path;
    std::byte *m_data = nullptr;
    std::size_t m_size = 0;
    Identity m_identity;
    MappingSlot *m_slot = nullptr; ///< null for an empty file, which has no mapping
};

} // namespace engine
