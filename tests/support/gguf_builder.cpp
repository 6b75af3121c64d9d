// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/gguf_builder.h"

#include "kernels/error.h"

#include <QFile>

namespace {

constexpr std::uint32_t typeU8 = 0, typeU16 = 2, typeU32 = 4, typeI32 = 5, typeF32 = 6, typeBool = 7, typeString = 8,
                        typeArray = 9, typeU64 = 10;

template<typename Value> QByteArray raw(Value value)
{
    return {reinterpret_cast<const char *>(&value), sizeof value};
}

template<typename Value> QByteArray packedArray(std::uint32_t elementType, const std::vector<Value> &values)
{
    QByteArray bytes = raw(elementType) + raw(std::uint64_t{values.size()});
    bytes.append(reinterpret_cast<const char *>(values.data()), static_cast<qsizetype>(values.size() * sizeof(Value)));
    return bytes;
}

void pad(QByteArray &bytes, std::uint32_t alignment)
{
    while (bytes.size() % alignment != 0)
        bytes.append('\0');
}

} // namespace

QByteArray GgufBuilder::packed(const std::string &text)
{
    return raw(std::uint64_t{text.size()}) + QByteArray(text.data(), static_cast<qsizetype>(text.size()));
}

std::uint32_t GgufBuilder::typeNumber(kernels::DType type)
{
    using kernels::DType;
    switch (type) {
    case DType::F32:
        return 0;
    case DType::F16:
        return 1;
    case DType::Q4_0:
        return 2;
    case DType::Q4_1:
        return 3;
    case DType::Q5_0:
        return 6;
    case DType::Q5_1:
        return 7;
    case DType::Q8_0:
        return 8;
    case DType::Q2_K:
        return 10;
    case DType::Q3_K:
        return 11;
    case DType::Q4_K:
        return 12;
    case DType::Q5_K:
        return 13;
    case DType::Q6_K:
        return 14;
    case DType::IQ4_NL:
        return 20;
    case DType::IQ4_XS:
        return 23;
    case DType::I8:
        return 24;
    case DType::I16:
        return 25;
    case DType::I32:
        return 26;
    case DType::I64:
        return 27;
    case DType::F64:
        return 28;
    case DType::BF16:
        return 30;
    case DType::MXFP4:
        return 39;
    case DType::IQ1_S:
        return 19;
    case DType::IQ1_M:
        return 29;
    case DType::IQ2_XXS:
        return 16;
    case DType::IQ2_XS:
        return 17;
    case DType::IQ2_S:
        return 22;
    case DType::IQ3_XXS:
        return 18;
    case DType::IQ3_S:
        return 21;
    case DType::TQ1_0:
        return 34;
    case DType::TQ2_0:
        return 35;
    case DType::NVFP4:
        return 40;
    case DType::INT2:
    case DType::INT3:
    case DType::INT4:
    case DType::INT8:
    case DType::W8A8:
    case DType::INT8Z:
    case DType::FP8:
    case DType::FP8_E5M2:
    case DType::NF4:
    case DType::NF4_F16:
    case DType::NF4_BF16:
    case DType::FP4:
    case DType::FP4_F16:
    case DType::FP4_BF16:
    case DType::E4M3:
        break; // of safetensors only
    }
    CHECK(false);
}

GgufBuilder &GgufBuilder::value(const std::string &key, std::uint32_t type, const QByteArray &bytes)
{
    m_pairs += packed(key) + raw(type) + bytes;
    ++m_pairCount;
    return *this;
}

GgufBuilder &GgufBuilder::u8(const std::string &key, std::uint8_t number)
{
    return value(key, typeU8, raw(number));
}

GgufBuilder &GgufBuilder::u16(const std::string &key, std::uint16_t number)
{
    return value(key, typeU16, raw(number));
}

GgufBuilder &GgufBuilder::u32(const std::string &key, std::uint32_t number)
{
    return value(key, typeU32, raw(number));
}

GgufBuilder &GgufBuilder::i32(const std::string &key, std::int32_t number)
{
    return value(key, typeI32, raw(number));
}

GgufBuilder &GgufBuilder::u64(const std::string &key, std::uint64_t number)
{
    return value(key, typeU64, raw(number));
}

GgufBuilder &GgufBuilder::f32(const std::string &key, float number)
{
    return value(key, typeF32, raw(number));
}

GgufBuilder &GgufBuilder::boolean(const std::string &key, bool flag)
{
    return value(key, typeBool, raw(static_cast<std::uint8_t>(flag)));
}

GgufBuilder &GgufBuilder::text(const std::string &key, const std::string &content)
{
    return value(key, typeString, packed(content));
}

GgufBuilder &GgufBuilder::texts(const std::string &key, const std::vector<std::string> &values)
{
    QByteArray bytes = raw(typeString) + raw(std::uint64_t{values.size()});
    for (const std::string &content : values)
        bytes += packed(content);
    return value(key, typeArray, bytes);
}

GgufBuilder &GgufBuilder::u32s(const std::string &key, const std::vector<std::uint32_t> &values)
{
    return value(key, typeArray, packedArray(typeU32, values));
}

GgufBuilder &GgufBuilder::i32s(const std::string &key, const std::vector<std::int32_t> &values)
{
    return value(key, typeArray, packedArray(typeI32, values));
}

GgufBuilder &GgufBuilder::f32s(const std::string &key, const std::vector<float> &values)
{
    return value(key, typeArray, packedArray(typeF32, values));
}

GgufBuilder &GgufBuilder::alignment(std::uint32_t bytes)
{
    CHECK(m_tensorCount == 0);
    m_alignment = bytes;
    return u32("general.alignment", bytes);
}

GgufBuilder &GgufBuilder::rawTensor(const std::string &name, std::uint32_t type, const std::vector<std::int64_t> &shape,
                                    const QByteArray &data)
{
    pad(m_data, m_alignment);
    m_table += packed(name) + raw(static_cast<std::uint32_t>(shape.size()));
    for (auto size = shape.rbegin(); size != shape.rend(); ++size)
        m_table += raw(static_cast<std::uint64_t>(*size));
    m_table += raw(type) + raw(static_cast<std::uint64_t>(m_data.size()));
    m_data += data;
    ++m_tensorCount;
    return *this;
}

GgufBuilder &GgufBuilder::tensor(const std::string &name, kernels::DType type, const std::vector<std::int64_t> &shape,
                                 const QByteArray &data)
{
    std::size_t bytes = kernels::rowBytes(type, shape.empty() ? 1 : shape.back());
    for (std::size_t i = 0; i + 1 < shape.size(); ++i)
        bytes *= static_cast<std::size_t>(shape[i]);
    CHECK(static_cast<std::size_t>(data.size()) == bytes);
    return rawTensor(name, typeNumber(type), shape, data);
}

GgufBuilder &GgufBuilder::tensor(const std::string &name, const std::vector<std::int64_t> &shape,
                                 const std::vector<float> &values)
{
    const QByteArray data(reinterpret_cast<const char *>(values.data()),
                          static_cast<qsizetype>(values.size() * sizeof(float)));
    return tensor(name, kernels::DType::F32, shape, data);
}

QByteArray GgufBuilder::bytes() const
{
    QByteArray file = QByteArray("GGUF") + raw(m_version) + raw(m_tensorCount) + raw(m_pairCount) + m_pairs + m_table;
    pad(file, m_alignment);
    file += m_data;
    pad(file, m_alignment);
    return file;
}

bool GgufBuilder::write(const QString &path) const
{
    QFile file(path);
    const QByteArray content = bytes();
    return file.open(QIODevice::WriteOnly | QIODevice::Truncate) && file.write(content) == content.size()
        && file.flush();
}
