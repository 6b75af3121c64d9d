// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/model_registry.h"

#include "engine/text/utf8.h"

#include <array>

namespace engine {

std::span<const ModelFamily> modelFamilies()
{
    static const std::array families{
        chatglmFamily(), cohere2Family(),  commandRFamily(),   deepseek2Family(),  ernie45Family(),  exaone4Family(),
        exaoneFamily(),  gemma2Family(),   gemma3Family(),     gemmaFamily(),      glm4Family(),     gpt2Family(),
        gptNeoxFamily(), gptOssFamily(),   graniteFamily(),    graniteMoeFamily(), hunyuanFamily(),  internlm2Family(),
        llamaFamily(),   minicpmFamily(),  olmo2Family(),      olmoeFamily(),      orionFamily(),    phi2Family(),
        phi3Family(),    qwen2Family(),    qwen2MoeFamily(),   qwen3Family(),      qwen3MoeFamily(), seedOssFamily(),
        smollm3Family(), stablelmFamily(), starcoder2Family(), xverseFamily()};
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
