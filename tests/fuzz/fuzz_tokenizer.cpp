// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/tokenizer.h"

#include <cstdint>
#include <cstdlib>

/// Any bytes as tokenizer.json end as a tokenizer whose ids lie inside its vocabulary, or as an Error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    try {
        const auto tokenizer = engine::makeTokenizer({reinterpret_cast<const char *>(data), size}, {});
        for (const int id : tokenizer->encode("Hello  wörld 123\n\t<s>", {true, true})) {
            if (id < 0 || id >= tokenizer->vocabSize())
                std::abort();
            (void)tokenizer->decode({id}, false);
        }
    } catch (const engine::Error &) {
    }
    return 0;
}
