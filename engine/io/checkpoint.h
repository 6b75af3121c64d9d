// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/error.h"
#include "kernels/dtype.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace engine {

/// One metadata value of a checkpoint. Arrays are homogeneous.
using MetadataValue =
    std::variant<bool, std::int64_t, std::uint64_t, double, std::string, std::vector<bool>, std::vector<std::int64_t>,
                 std::vector<std::uint64_t>, std::vector<double>, std::vector<std::string>>;

/// Keys in file order with typed access; a wrong type is Error Refused naming file, key, found and wanted.
class Metadata {
public:
    /// `typeName` is the value's type as the file declares it ("uint32", "array of int8"); empty when it has none.
    void add(std::string key, MetadataValue value, std::string typeName = {});
    /// As add(), in place of a value that the key has already.
    void set(std::string key, MetadataValue value);
    /// The file that errors name.
    void setSource(std::string path) { m_source = std::move(path); }
    [[nodiscard]] const MetadataValue *find(std::string_view key) const;
    [[nodiscard]] const std::vector<std::pair<std::string, MetadataValue>> &entries() const { return m_entries; }

    /// The declared type, in GGUF's words: uint8 int8 uint16 int16 uint32 int32 float32 bool string uint64 int64
    /// float64, or "array of" one of them; empty when the key is absent.
    [[nodiscard]] std::string_view typeName(std::string_view key) const;

    [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key) const; ///< any integer type that fits
    [[nodiscard]] std::optional<double> number(std::string_view key) const;        ///< any numeric type
    [[nodiscard]] std::optional<bool> boolean(std::string_view key) const;
    [[nodiscard]] const std::string *text(std::string_view key) const;
    [[nodiscard]] const std::vector<std::string> *texts(std::string_view key) const;
    [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(
        std::string_view key) const; ///< array of any integer type
    [[nodiscard]] std::optional<std::vector<double>> numbers(std::string_view key) const;

private:
    [[noreturn]] void failType(std::string_view key, std::string_view wanted) const;

    std::vector<std::pair<std::string, MetadataValue>> m_entries;
    std::vector<std::string> m_typeNames; ///< one per entry
    std::string m_source;
};

/// One tensor of a checkpoint. Shape is slowest dimension first (GGUF's order reversed).
struct TensorInfo {
    std::string name;
    kernels::DType type = kernels::DType::F32;
    std::vector<std::int64_t> shape;
    std::uint64_t fileOffset = 0; ///< absolute
    std::uint64_t bytes = 0;
    int file = 0;           ///< shard number
    std::string typeName;   ///< as the file spells it, also for types that cannot be computed
    bool computable = true; ///< false: only typeName says what it is, `type` means nothing and bytes() refuses it
};

/// A model's files: metadata and mapped tensors. Everything declared has been checked against the bytes present.
///
/// Thread: immutable after open, except releasePages. \throws Error Refused or IoError
/// Source: GGUF specification, ggml-org/ggml:docs/gguf.md.
class Checkpoint {
public:
    virtual ~Checkpoint() = default;

    [[nodiscard]] virtual const std::string &path() const = 0;
    [[nodiscard]] virtual const Metadata &metadata() const = 0;
    [[nodiscard]] virtual const std::vector<TensorInfo> &tensors() const = 0;
    [[nodiscard]] virtual const TensorInfo *find(std::string_view name) const = 0;
    /// How the files spell the name of a tensor, also of one that they lack; for errors.
    [[nodiscard]] virtual std::string nameInFiles(std::string_view name) const { return std::string(name); }
    /// The tensor's bytes in the mapping; reading them can never raise SIGBUS (see checkUnchanged).
    /// \throws Error Refused when the tensor's type cannot be computed
    [[nodiscard]] virtual std::span<const std::byte> bytes(const TensorInfo &tensor) const = 0;
    /// Column k of the bytes is column columnOrder()[k] of the matrix; empty = they stand in order.
    [[nodiscard]] virtual std::span<const std::int32_t> columnOrder(const TensorInfo &) const { return {}; }
    /// Of activations that meet a tensor of W8A8 (kernels::WeightPart); 0 = each row has its own.
    [[nodiscard]] virtual float activationScale(const TensorInfo &) const { return 0.0F; }
    [[nodiscard]] virtual std::uint64_t fileBytes() const = 0;
    [[nodiscard]] virtual std::vector<std::string> warnings() const = 0;
    /// Empty while the files on disk are the ones that were opened and every page could be read; else one
    /// sentence: changed, cut, replaced or deleted.
    [[nodiscard]] virtual std::string checkUnchanged() const = 0;
    /// Tells the system that the mapped pages of a tensor are not needed any more.
    virtual void releasePages(const TensorInfo &tensor) const = 0;
    /// The same for `count` of its bytes from `offset` on, where bytes are a file's own.
    virtual void releasePart(const TensorInfo &, std::size_t /*offset*/, std::size_t /*count*/) const { }
};

/// Opens a GGUF file, or the first shard of a set, and all its shards.
[[nodiscard]] std::unique_ptr<Checkpoint> openCheckpoint(const std::string &path);

} // namespace engine
