// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/core/system_memory.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>

namespace engine {
namespace {

std::optional<std::uint64_t> readNumber(const std::string &path)
{
    std::ifstream file(path);
    std::uint64_t value = 0;
    if (file >> value) // "max" is no number: no limit
        return value;
    return std::nullopt;
}

/// The number of kibibytes after `key` in /proc/meminfo, as bytes.
std::optional<std::uint64_t> meminfo(const std::string &key)
{
    std::ifstream file("/proc/meminfo");
    std::string name;
    std::string rest;
    std::uint64_t value = 0;
    while (file >> name >> value) {
        if (name == key)
            return value * 1024;
        std::getline(file, rest);
    }
    return std::nullopt;
}

/// File pages that the kernel would drop; they count as used in a control group.
std::uint64_t reclaimable(const std::string &folder)
{
    std::ifstream file(folder + "/memory.stat");
    std::string name;
    std::uint64_t value = 0;
    std::uint64_t total = 0;
    while (file >> name >> value) {
        if (name == "inactive_file" || name == "active_file")
            total += value;
    }
    return total;
}

/// The least room under the limits from this process's group up to the root. Source: kernel documentation, cgroup-v2.
std::uint64_t controlGroupRoom()
{
    std::uint64_t room = std::numeric_limits<std::uint64_t>::max();
    std::ifstream file("/proc/self/cgroup");
    std::string line;
    while (std::getline(file, line)) {
        if (!line.starts_with("0::"))
            continue;
        std::string group = line.substr(3);
        while (true) {
            const std::string folder = "/sys/fs/cgroup" + (group == "/" ? std::string() : group);
            const auto limit = readNumber(folder + "/memory.max");
            const auto used = readNumber(folder + "/memory.current");
            if (limit && used) {
                const std::uint64_t busy = *used - std::min(*used, reclaimable(folder));
                room = std::min(room, *limit - std::min(*limit, busy));
            }
            if (group.empty() || group == "/")
                break;
            group.resize(group.rfind('/') == 0 ? 1 : group.rfind('/'));
        }
    }
    return room;
}

} // namespace

std::size_t availableMemoryBytes()
{
    const std::optional<std::uint64_t> available = meminfo("MemAvailable:");
    if (!available)
        return 0;
    return static_cast<std::size_t>(std::min(*available, controlGroupRoom()));
}

std::string describeBytes(std::size_t bytes)
{
    return std::to_string(bytes) + " bytes (" + std::to_string(bytes >> 20U) + " MiB)";
}

} // namespace engine
