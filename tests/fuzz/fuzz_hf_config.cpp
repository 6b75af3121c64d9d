// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/error.h"
#include "engine/models/hf_checkpoint.h"

#include <cstdint>

/// Any bytes as config.json end as a family and its keys, or as an Error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    try {
        const engine::HfConfig config({reinterpret_cast<const char *>(data), size}, "no-folder/config.json");
        (void)engine::translateHfConfig(engine::modelConfigOf(config));
    } catch (const engine::Error &) {
    }
    return 0;
}
