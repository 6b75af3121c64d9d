// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/checkpoint.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace engine {

/// A tensor that is going to be written; its type is chosen when its turn comes.
struct GgufTensorPlan {
    std::string name;
    std::vector<std::int64_t> shape; ///< slowest dimension first
};

/// The type that llama.cpp expects of a value which no file declared one for: uint32, int32 or a wider integer,
/// float32, bool, string, and "array of" int32, float32 or the last two.
[[nodiscard]] std::string usualGgufType(const MetadataValue &value);

/// The bytes of one metadata pair: key, type, value, of the type that `metadata` declares.
/// \throws Error Refused naming the key when a value does not fit its declared type
[[nodiscard]] std::vector<std::byte> encodeGgufPair(const Metadata &metadata, std::size_t index);

/// Writes a GGUF file (version 3) from front to back and gives it its name at the end. Keys and tensors keep their
/// order, so that a file read and written again has the same bytes; data is aligned as `general.alignment` says.
///
/// Until finish() everything goes to PATH.partial, which the destructor removes. Thread: one caller.
/// \throws Error IoError naming the file and what the system said (no space, too large, not allowed)
/// Source: GGUF specification, ggml-org/ggml:docs/gguf.md.
class GgufWriter {
public:
    GgufWriter(std::string path, const Metadata &metadata, std::vector<GgufTensorPlan> tensors);
    ~GgufWriter();
    GgufWriter(const GgufWriter &) = delete;
    GgufWriter &operator=(const GgufWriter &) = delete;

    /// Starts the next tensor. \pre the one before has all its bytes; GGUF can store `type`
    void begin(kernels::DType type);
    /// More bytes of the tensor that was begun.
    void append(std::span<const std::byte> bytes);
    /// Writes the header, makes sure of the disk, and moves the file to its place; returns its size.
    /// \pre every tensor has all its bytes
    std::uint64_t finish();

private:
    struct Written {
        std::uint32_t type = 0;
        std::uint64_t offset = 0;
    };

    [[nodiscard]] std::vector<std::byte> header() const;
    void write(const std::byte *bytes, std::size_t count, std::uint64_t at);
    void padTensor();
    [[noreturn]] void fail(const char *doing) const;

    std::string m_path;
    std::string m_partial;
    std::vector<std::byte> m_pairs;
    std::uint64_t m_pairCount = 0;
    std::vector<GgufTensorPlan> m_tensors;
    std::vector<Written> m_written;
    std::uint64_t m_alignment = 32;
    std::uint64_t m_dataStart = 0;
    std::uint64_t m_position = 0; ///< in the data, of the next byte
    std::uint64_t m_left = 0;     ///< bytes that the begun tensor still lacks
    int m_file = -1;
};

} // namespace engine
