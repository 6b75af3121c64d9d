// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/output_file.h"

#include "engine/api/error.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace cli {
namespace {

constexpr mode_t allModeBits = 0777;
constexpr mode_t defaultMode = 0666; // as the umask lets it

/// Where a chain of symbolic links ends, so that the file is replaced and not the link.
std::string behindLinks(const std::string &path)
{
    std::error_code ignored;
    const std::filesystem::path target = std::filesystem::weakly_canonical(path, ignored);
    return ignored || target.empty() ? path : target.string();
}

bool mayBeReplaced(const std::string &path, const std::string &target, const struct stat *status)
{
    for (const std::string *place : {&path, &target})
        if (place->starts_with("/dev/") || place->starts_with("/proc/"))
            return false;
    return status == nullptr || S_ISREG(status->st_mode);
}

} // namespace

OutputFile::OutputFile(std::string option, std::string path)
    : m_option(std::move(option))
    , m_path(std::move(path))
    , m_target(behindLinks(m_path))
{
    if (m_path.empty())
        throw engine::Error(engine::ErrorCode::InvalidArgument, m_option + ": found \"\", wanted the name of a file");
    struct stat status{};
    const bool exists = stat(m_target.c_str(), &status) == 0;
    if (exists && S_ISDIR(status.st_mode))
        fail(EISDIR);
    if (exists && access(m_target.c_str(), W_OK) != 0)
        fail(errno);
    if (mayBeReplaced(m_path, m_target, exists ? &status : nullptr))
        openBeside(exists ? status.st_mode & allModeBits : defaultMode);
    else
        m_file = open(m_path.c_str(), O_WRONLY | O_CLOEXEC);
    if (m_file < 0)
        fail(errno);
}

/// Without a name where the file system can, so that no end of the program, however sudden, leaves a part behind.
void OutputFile::openBeside(unsigned mode)
{
    m_partial = m_target + "." + std::to_string(getpid()) + ".partial";
    const std::string folder = std::filesystem::path(m_target).parent_path().string();
    m_file = open(folder.empty() ? "." : folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, mode);
    m_named = m_file < 0;
    if (m_named)
        m_file = open(m_partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    m_named = m_named && m_file >= 0;
}

OutputFile::~OutputFile()
{
    if (m_file >= 0)
        (void)close(m_file);
    if (m_named)
        (void)std::remove(m_partial.c_str());
}

void OutputFile::write(std::string_view bytes)
{
    while (!bytes.empty()) {
        const ssize_t written = ::write(m_file, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            fail(errno);
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
}

void OutputFile::write(std::span<const float> values)
{
    write(std::string_view(reinterpret_cast<const char *>(values.data()), values.size_bytes()));
}

void OutputFile::commit()
{
    if (!m_partial.empty() && !m_named) {
        const std::string own = "/proc/self/fd/" + std::to_string(m_file);
        m_named = linkat(AT_FDCWD, own.c_str(), AT_FDCWD, m_partial.c_str(), AT_SYMLINK_FOLLOW) == 0;
        if (!m_named)
            fail(errno);
    }
    if (close(std::exchange(m_file, -1)) != 0)
        fail(errno);
    if (m_named && std::rename(m_partial.c_str(), m_target.c_str()) != 0)
        fail(errno);
    m_named = false;
}

void OutputFile::fail(int reason) const
{
    throw engine::Error(engine::ErrorCode::IoError,
                        m_option + " " + m_path + ": could not be written: " + std::strerror(reason));
}

} // namespace cli
