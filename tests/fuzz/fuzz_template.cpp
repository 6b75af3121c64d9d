// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/error.h"
#include "engine/api/text.h"

#include <cstdint>
#include <string>

/// Any bytes as a chat template end as a text or as an Error, within the interpreter's budget.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    static const std::string context =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", "
        "\"content\": \"Yes?\"}], \"tools\": [{\"type\": \"function\", \"function\": "
        "{\"name\": \"f\"}}], \"bos_token\": \"<s>\", \"add_generation_prompt\": true}";
    try {
        (void)engine::renderTemplate(std::string(reinterpret_cast<const char *>(data), size), context, "2026-01-31");
    } catch (const engine::Error &) {
    }
    return 0;
}
