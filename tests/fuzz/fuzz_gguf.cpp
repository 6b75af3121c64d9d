// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/gguf_reader.h"

#include <cstdint>
#include <cstdlib>

/// The GGUF reader ends any bytes as a header whose tensors lie inside them, or as an Error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    try {
        const auto header = engine::readGguf(std::as_bytes(std::span(data, size)), "input");
        for (const engine::TensorInfo &tensor : header.tensors) {
            if (tensor.fileOffset > size || tensor.bytes > size - tensor.fileOffset)
                std::abort();
        }
    } catch (const engine::Error &) {
    }
    return 0;
}
