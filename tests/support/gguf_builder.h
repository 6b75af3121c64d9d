// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/dtype.h"

#include <QByteArray>
#include <QString>

#include <cstdint>
#include <string>
#include <vector>

/// Builds GGUF files for tests, key by key and tensor by tensor, in the order of the calls.
class GgufBuilder {
public:
    explicit GgufBuilder(std::uint32_t version = 3)
        : m_version(version)
    {
    }

    GgufBuilder &u8(const std::string &key, std::uint8_t value);
    GgufBuilder &u16(const std::string &key, std::uint16_t value);
    GgufBuilder &u32(const std::string &key, std::uint32_t value);
    GgufBuilder &i32(const std::string &key, std::int32_t value);
    GgufBuilder &u64(const std::string &key, std::uint64_t value);
    GgufBuilder &f32(const std::string &key, float value);
    GgufBuilder &boolean(const std::string &key, bool value);
    GgufBuilder &text(const std::string &key, const std::string &value);
    GgufBuilder &texts(const std::string &key, const std::vector<std::string> &values);
    GgufBuilder &u32s(const std::string &key, const std::vector<std::uint32_t> &values);
    GgufBuilder &i32s(const std::string &key, const std::vector<std::int32_t> &values);
    GgufBuilder &f32s(const std::string &key, const std::vector<float> &values);
    /// A value of any type number, its bytes given as they stand in the file.
    GgufBuilder &value(const std::string &key, std::uint32_t type, const QByteArray &bytes);

    /// A tensor of `shape`, slowest dimension first; `data` must have the bytes that type and shape need.
    GgufBuilder &tensor(const std::string &name, kernels::DType type, const std::vector<std::int64_t> &shape,
                        const QByteArray &data);
    /// A float32 tensor with the given values.
    GgufBuilder &tensor(const std::string &name, const std::vector<std::int64_t> &shape,
                        const std::vector<float> &values);
    /// A tensor of any type number.
    GgufBuilder &rawTensor(const std::string &name, std::uint32_t type, const std::vector<std::int64_t> &shape,
                           const QByteArray &data);

    /// Also writes the key general.alignment.
    GgufBuilder &alignment(std::uint32_t bytes);

    /// The file; padded behind the last tensor.
    [[nodiscard]] QByteArray bytes() const;
    /// Writes bytes() to `path`; false when that fails.
    [[nodiscard]] bool write(const QString &path) const;

    /// A string as GGUF writes it: length, then bytes.
    [[nodiscard]] static QByteArray packed(const std::string &text);
    /// The type number that GGUF files use.
    [[nodiscard]] static std::uint32_t typeNumber(kernels::DType type);

private:
    std::uint32_t m_version;
    std::uint32_t m_alignment = 32;
    QByteArray m_pairs;
    QByteArray m_table;
    QByteArray m_data;
    std::uint64_t m_pairCount = 0;
    std::uint64_t m_tensorCount = 0;
};
