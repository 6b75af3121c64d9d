// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/mapped_file.h"

#include "engine/api/error.h"
#include "engine/core/printable.h"
#include "engine/io/fault_guard.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace engine {

namespace {

std::string systemText(int error)
{
    return std::generic_category().message(error);
}

std::string kindOf(mode_t mode)
{
    if (S_ISDIR(mode))
        return "a folder";
    if (S_ISFIFO(mode))
        return "a pipe";
    if (S_ISSOCK(mode))
        return "a socket";
    if (S_ISCHR(mode) || S_ISBLK(mode))
        return "a device";
    return "no regular file";
}

/// Owns a file descriptor while a file is being opened; the mapping outlives it.
class Descriptor {
public:
    explicit Descriptor(int value)
        : m_value(value)
    {
    }
    ~Descriptor() { close(m_value); }
    Descriptor(const Descriptor &) = delete;
    Descriptor &operator=(const Descriptor &) = delete;
    [[nodiscard]] int value() const { return m_value; }

private:
    int m_value;
};

int openForReading(const std::string &path)
{
    if (path.find('\0') != std::string::npos)
        throw Error(ErrorCode::Refused, inQuotes(path) + " holds a NUL character, wanted the path of a file");
    int descriptor = -1;
    do { // non-blocking, or a pipe without a writer would keep us waiting
        descriptor = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    } while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0 && errno == ENXIO)
        throw Error(ErrorCode::Refused,
                    inQuotes(path) + " is a socket or has no device behind it, wanted a regular file");
    if (descriptor < 0)
        throw Error(ErrorCode::IoError, "cannot open " + inQuotes(path) + " for reading: " + systemText(errno));
    return descriptor;
}

} // namespace

MappedFile::MappedFile(const std::string &path)
    : m_path(path)
{
    const Descriptor file(openForReading(path));
    struct stat status = {};
    if (fstat(file.value(), &status) != 0)
        throw Error(ErrorCode::IoError, "cannot examine " + inQuotes(path) + ": " + systemText(errno));
    if (!S_ISREG(status.st_mode))
        throw Error(ErrorCode::Refused, inQuotes(path) + " is " + kindOf(status.st_mode) + ", wanted a regular file");
    m_size = static_cast<std::size_t>(status.st_size);
    m_identity = {status.st_dev, status.st_ino, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
    if (m_size == 0)
        return;
    void *data = mmap(nullptr, m_size, PROT_READ, MAP_SHARED, file.value(), 0);
    if (data == MAP_FAILED)
        throw Error(ErrorCode::IoError,
                    "cannot map the " + std::to_string(m_size) + " bytes of " + inQuotes(path) + ": "
                        + systemText(errno));
    m_data = static_cast<std::byte *>(data);
    m_slot = guardMapping(m_data, m_size);
}

MappedFile::~MappedFile()
{
    if (m_slot == nullptr)
        return;
    releaseGuard(m_slot);
    munmap(m_data, m_size);
}

std::string MappedFile::checkUnchanged() const
{
    struct stat status = {};
    if (stat(m_path.c_str(), &status) != 0)
        return "the file " + inQuotes(m_path)
            + (errno == ENOENT ? " was deleted while it was open"
                               : " cannot be examined any more: " + systemText(errno));
    if (status.st_dev != m_identity.device || status.st_ino != m_identity.inode)
        return "the file " + inQuotes(m_path) + " was replaced by another one while it was open";
    const auto size = static_cast<std::uint64_t>(status.st_size);
    if (size < m_size)
        return "the file " + inQuotes(m_path) + " was cut short from " + std::to_string(m_size) + " to "
            + std::to_string(size) + " bytes while it was open";
    const Identity now = {status.st_dev, status.st_ino, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
    if (size != m_size || !(now == m_identity))
        return "the file " + inQuotes(m_path) + " was changed while it was open";
    if (m_slot != nullptr && isDamaged(m_slot))
        return "a part of the file " + inQuotes(m_path) + " could not be read";
    return {};
}

void MappedFile::releasePages(std::size_t offset, std::size_t count) const
{
    if (m_data == nullptr || offset >= m_size)
        return;
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t first = (offset + page - 1) / page * page;
    const std::size_t end = (offset + std::min(count, m_size - offset)) / page * page;
    if (first < end)
        madvise(m_data + first, end - first, MADV_DONTNEED);
}

} // namespace engine
