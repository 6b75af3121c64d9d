// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QByteArray>
#include <QString>

#include <cstdint>
#include <string>
#include <vector>

/// Writes safetensors files for tests, sound ones unless told otherwise.
class SafetensorsBuilder {
public:
    /// `bytes` must be what the shape needs; nothing checks it.
    SafetensorsBuilder &tensor(const std::string &name, const std::string &type, const std::vector<std::int64_t> &shape,
                               const QByteArray &bytes);
    /// F32 values 0, 1, 2 ... plus `start`.
    SafetensorsBuilder &counting(const std::string &name, const std::vector<std::int64_t> &shape, float start = 0);
    /// Spaces behind the header, which move the data.
    SafetensorsBuilder &pad(int spaces);
    [[nodiscard]] QByteArray bytes() const;
    [[nodiscard]] bool write(const QString &path) const;

private:
    std::string m_header;
    QByteArray m_data;
    int m_spaces = 0;
};

/// Writes a small text file. False when that fails.
[[nodiscard]] bool writeText(const QString &path, const QByteArray &text);
