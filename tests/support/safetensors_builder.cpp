// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/safetensors_builder.h"

#include <QFile>

#include <cstring>

SafetensorsBuilder &SafetensorsBuilder::tensor(const std::string &name, const std::string &type,
                                               const std::vector<std::int64_t> &shape, const QByteArray &bytes)
{
    std::string sizes;
    for (const std::int64_t size : shape)
        sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
    m_header += (m_header.empty() ? "" : ",") + ("\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":[" + sizes)
        + "],\"data_offsets\":[" + std::to_string(m_data.size()) + "," + std::to_string(m_data.size() + bytes.size())
        + "]}";
    m_data += bytes;
    return *this;
}

SafetensorsBuilder &SafetensorsBuilder::counting(const std::string &name, const std::vector<std::int64_t> &shape,
                                                 float start)
{
    std::int64_t count = 1;
    for (const std::int64_t size : shape)
        count *= size;
    QByteArray bytes(static_cast<qsizetype>(count) * 4, '\0');
    for (std::int64_t i = 0; i < count; ++i) {
        const float value = start + static_cast<float>(i);
        std::memcpy(bytes.data() + i * 4, &value, 4);
    }
    return tensor(name, "F32", shape, bytes);
}

SafetensorsBuilder &SafetensorsBuilder::pad(int spaces)
{
    m_spaces = spaces;
    return *this;
}

QByteArray SafetensorsBuilder::bytes() const
{
    const QByteArray header = QByteArray::fromStdString("{" + m_header + "}") + QByteArray(m_spaces, ' ');
    const auto length = static_cast<std::uint64_t>(header.size());
    QByteArray all(8, '\0');
    std::memcpy(all.data(), &length, 8);
    return all + header + m_data;
}

bool SafetensorsBuilder::write(const QString &path) const
{
    return writeText(path, bytes());
}

bool writeText(const QString &path, const QByteArray &text)
{
    QFile file(path);
    return file.open(QIODevice::WriteOnly) && file.write(text) == text.size();
}
