// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "tests/support/safetensors_builder.h"

/// A safetensors file of lists of numbers.
class TensorFile : public SafetensorsBuilder {
public:
    template<typename T>
    void add(const std::string &name, const char *type, const std::vector<std::int64_t> &shape,
             const std::vector<T> &values)
    {
        tensor(name, type, shape,
               QByteArray(reinterpret_cast<const char *>(values.data()),
                          static_cast<qsizetype>(values.size() * sizeof(T))));
    }
};
