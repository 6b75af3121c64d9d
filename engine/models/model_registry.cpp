// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/model_registry.h"

#include "engine/text/utf8.h"

#include <array>

namespace engine {

std::span<const ModelFamily> modelFamilies()
{
    static const std::array families{
        chatglmFamily(),  cohere2Family(),    commandRFamily(), ernie45Family(), exaoneFamily(),  exaone4Family(),
        gemmaFamily(),    gemma2Family(),     gemma3Family(),   glm4Family(),    gpt2Family(),    gptNeoxFamily(),
        graniteFamily(),  internlm2Family(),  llamaFamily(),    minicpmFamily(), olmo2Family(),   orionFamily(),
        phi2Family(),     phi3Family(),       qwen2Family(),    qwen3Family(),   seedOssFamily(), smollm3Family(),
        stablelmFamily(), starcoder2Family(), xverseFamily()};
    return families;
}

const ModelFamily &familyOf(const Checkpoint &checkpoint)
{
    const std::string &wanted = architectureOf(checkpoint);
    std::string known;
    for (const ModelFamily &family : modelFamilies()) {
        if (family.architecture == wanted)
            return family;
        known += (known.empty() ? "" : ", ") + std::string(family.architecture);
    }
    throw Error(ErrorCode::Refused,
                "key general.architecture is " + utf8::quoted(wanted)
                    + ", which is not supported; known architectures are " + known);
}

} // namespace engine
