// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/core/file_bytes.h"

#include <lzma.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>
#include <vector>

namespace engine {
namespace {

constexpr std::uint64_t decoderMemory = 128ULL << 20U; // xz -9 needs 65 MiB

[[noreturn]] void tooLarge(const std::string &path, std::size_t maxBytes)
{
    throw Error(ErrorCode::Refused,
                path + ": too large, more than the limit of " + std::to_string(maxBytes) + " bytes");
}

std::string readRegular(const std::string &path, std::size_t maxBytes)
{
    std::error_code failure;
    const auto status = std::filesystem::status(path, failure);
    if (status.type() == std::filesystem::file_type::not_found)
        throw Error(ErrorCode::Refused, path + ": no such file");
    if (failure)
        throw Error(ErrorCode::IoError, path + ": " + failure.message());
    if (!std::filesystem::is_regular_file(status))
        throw Error(ErrorCode::Refused, path + ": must be a regular file");
    const std::uintmax_t size = std::filesystem::file_size(path, failure);
    if (!failure && size > maxBytes)
        tooLarge(path, maxBytes);
    std::ifstream stream(path, std::ios::binary);
    std::string bytes(failure ? 0 : static_cast<std::size_t>(size), '\0');
    if (!stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
        throw Error(ErrorCode::IoError,
                    path + ": cannot be read" + (errno != 0 ? std::string(": ") + std::strerror(errno) : ""));
    return bytes;
}

std::string unpack(const std::string &packed, const std::string &path, std::size_t maxBytes)
{
    lzma_stream stream = LZMA_STREAM_INIT;
    const std::unique_ptr<lzma_stream, decltype(&lzma_end)> owner(&stream, &lzma_end);
    if (lzma_stream_decoder(&stream, decoderMemory, 0) != LZMA_OK)
        throw Error(ErrorCode::OutOfMemory, path + ": no memory to unpack it");
    std::string out;
    std::vector<char> chunk(1U << 20U);
    stream.next_in = reinterpret_cast<const std::uint8_t *>(packed.data());
    stream.avail_in = packed.size();
    lzma_ret result = LZMA_OK;
    while (result == LZMA_OK) {
        stream.next_out = reinterpret_cast<std::uint8_t *>(chunk.data());
        stream.avail_out = chunk.size();
        result = lzma_code(&stream, LZMA_FINISH);
        out.append(chunk.data(), chunk.size() - stream.avail_out);
        if (out.size() > maxBytes)
            tooLarge(path, maxBytes);
    }
    if (result != LZMA_STREAM_END)
        throw Error(ErrorCode::Refused,
                    path + ": broken xz data" + (result == LZMA_BUF_ERROR ? ", the file is cut short" : ""));
    return out;
}

} // namespace

std::string readFileBytes(const std::string &path, std::size_t maxBytes)
{
    std::string bytes = readRegular(path, maxBytes);
    return std::string_view(path).ends_with(".xz") ? unpack(bytes, path, maxBytes) : bytes;
}

std::filesystem::path presentFile(const std::filesystem::path &folder, const std::string &name)
{
    std::error_code ignored;
    for (const char *suffix : {"", ".xz"}) {
        if (const std::filesystem::path file = folder / (name + suffix); std::filesystem::exists(file, ignored))
            return file;
    }
    return {};
}

} // namespace engine
