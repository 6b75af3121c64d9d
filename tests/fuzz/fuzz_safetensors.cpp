// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/error.h"
#include "engine/io/safetensors_reader.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    try {
        const auto header = engine::readSafetensors(std::as_bytes(std::span(data, size)), "input");
        for (const engine::SafetensorsTensor &tensor : header.tensors) {
            if (tensor.offset > size || tensor.bytes > size - tensor.offset)
                std::abort();
        }
    } catch (const engine::Error &) {
    }
    return 0;
}
