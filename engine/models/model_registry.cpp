// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/model_registry.h"

#include "engine/text/utf8.h"

#include <array>

namespace engine {

std::span<const ModelFamily> modelFamilies()
{
    static const std::array families{chatglmFamily(), ernie45Family(),   exaoneFamily(), exaone4Family(),
                                     glm4Family(),    internlm2Family(), llamaFamily(),  olmo2Family(),
                                     phi3Family(),    qwen2Family(),     qwen3Family(),  seedOssFamily(),
                                     smollm3Family(), xverseFamily()};
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
