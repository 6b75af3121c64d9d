// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/gguf_writer.h"

#include "engine/core/printable.h"
#include "engine/io/byte_writer.h"
#include "engine/io/gguf_parts.h"
#include "engine/io/gguf_types.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <unistd.h>

namespace engine {

namespace {

std::uint64_t elementsOf(const GgufTensorPlan &tensor)
{
    std::uint64_t elements = 1;
    for (const std::int64_t size : tensor.shape)
        elements *= static_cast<std::uint64_t>(size);
    return elements;
}

} // namespace

GgufWriter::GgufWriter(std::string path, const Metadata &metadata, std::vector<GgufTensorPlan> tensors)
    : m_path(std::move(path))
    , m_partial(m_path + ".partial")
    , m_pairCount(metadata.entries().size())
    , m_tensors(std::move(tensors))
    , m_alignment(static_cast<std::uint64_t>(metadata.integer("general.alignment").value_or(32)))
{
    for (std::size_t i = 0; i < metadata.entries().size(); ++i) {
        const std::vector<std::byte> pair = encodeGgufPair(metadata, i);
        m_pairs.insert(m_pairs.end(), pair.begin(), pair.end());
    }
    m_written.reserve(m_tensors.size());
    m_dataStart = alignUp(header().size(), m_alignment); // its length does not depend on types and offsets
    m_file = ::open(m_partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (m_file < 0) {
        const std::string partial = std::exchange(m_partial, {}); // not ours to remove
        throw Error(ErrorCode::IoError, inQuotes(partial) + " could not be created: " + std::strerror(errno));
    }
}

GgufWriter::~GgufWriter()
{
    if (m_file >= 0)
        (void)::close(m_file);
    if (!m_partial.empty())
        (void)std::remove(m_partial.c_str());
}

void GgufWriter::fail(const char *doing) const
{
    throw Error(ErrorCode::IoError, inQuotes(m_path) + " could not be " + doing + ": " + std::strerror(errno));
}

std::vector<std::byte> GgufWriter::header() const
{
    std::vector<std::byte> bytes;
    for (const char letter : {'G', 'G', 'U', 'F'})
        put(bytes, letter);
    put(bytes, std::uint32_t{3});
    put(bytes, std::uint64_t{m_tensors.size()});
    put(bytes, m_pairCount);
    bytes.insert(bytes.end(), m_pairs.begin(), m_pairs.end());
    for (std::size_t i = 0; i < m_tensors.size(); ++i) {
        const GgufTensorPlan &tensor = m_tensors[i];
        const Written written = i < m_written.size() ? m_written[i] : Written{};
        putText(bytes, tensor.name);
        put(bytes, static_cast<std::uint32_t>(tensor.shape.size()));
        for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size)
            put(bytes, static_cast<std::uint64_t>(*size));
        put(bytes, written.type);
        put(bytes, written.offset);
    }
    return bytes;
}

void GgufWriter::write(const std::byte *bytes, std::size_t count, std::uint64_t at)
{
    while (count > 0) {
        const ssize_t done = ::pwrite(m_file, bytes, count, static_cast<off_t>(at));
        if (done < 0 && errno == EINTR)
            continue;
        if (done == 0)
            errno = ENOSPC;
        if (done <= 0)
            fail("written");
        bytes += done;
        at += static_cast<std::uint64_t>(done);
        count -= static_cast<std::size_t>(done);
    }
}

void GgufWriter::padTensor()
{
    const std::vector<std::byte> zeros(alignUp(m_position, m_alignment) - m_position);
    write(zeros.data(), zeros.size(), m_dataStart + m_position);
    m_position += zeros.size();
}

void GgufWriter::begin(kernels::DType type)
{
    CHECK(m_left == 0 && m_written.size() < m_tensors.size());
    const auto number = ggufTypeNumber(type);
    CHECK(number.has_value());
    padTensor();
    const GgufTensorPlan &tensor = m_tensors[m_written.size()];
    const kernels::DTypeInfo &layout = kernels::info(type);
    CHECK(layout.blockElements == 1 || (!tensor.shape.empty() && tensor.shape.back() % layout.blockElements == 0));
    m_left = elementsOf(tensor) / static_cast<std::uint64_t>(layout.blockElements)
        * static_cast<std::uint64_t>(layout.blockBytes);
    m_written.push_back({*number, m_position});
}

void GgufWriter::append(std::span<const std::byte> bytes)
{
    CHECK(bytes.size() <= m_left);
    write(bytes.data(), bytes.size(), m_dataStart + m_position);
    m_position += bytes.size();
    m_left -= bytes.size();
}

std::uint64_t GgufWriter::finish()
{
    CHECK(m_left == 0 && m_written.size() == m_tensors.size());
    padTensor();
    std::vector<std::byte> front = header();
    front.resize(m_dataStart);
    write(front.data(), front.size(), 0);
    if (::fsync(m_file) != 0 && errno != EINVAL && errno != ENOSYS) // special files have nothing to sync
        fail("written");
    if (::close(std::exchange(m_file, -1)) != 0)
        fail("written");
    if (std::rename(m_partial.c_str(), m_path.c_str()) != 0)
        fail("renamed from its partial file");
    m_partial.clear();
    return m_dataStart + m_position;
}

} // namespace engine
