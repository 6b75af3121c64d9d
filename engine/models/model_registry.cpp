// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/model_registry.h"

#include "engine/models/model_config.h"
#include "engine/text/utf8.h"

#include <array>

namespace engine {

namespace {

/// A text that speaks of GGUF's keys, which the configuration of a folder was translated to, with the names that it has
/// for them and the file it stands in; the same text for a GGUF file.
std::string withKeysOfFiles(const Checkpoint &checkpoint, const std::string &text)
{
    const std::string prefix = architectureOf(checkpoint) + '.';
    std::string result = text;
    for (std::size_t at = result.find(prefix); at != std::string::npos; at = result.find(prefix, at + 1)) {
        std::size_t end = result.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.-", at);
        end = result.find_last_not_of('.', std::min(end, result.size()) - 1) + 1;
        if (at == 0 || result[at - 1] == ' ')
            result.replace(at, end - at, checkpoint.nameInFiles(std::string_view(result).substr(at, end - at)));
    }
    return result == text ? text : checkpoint.path() + "/config.json: " + result;
}

} // namespace

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

ModelConfig readModelConfig(const Checkpoint &checkpoint)
{
    const ModelFamily &family = familyOf(checkpoint);
    try {
        return family.readConfig(checkpoint);
    } catch (const Error &error) {
        throw Error(error.code(), withKeysOfFiles(checkpoint, error.what()));
    }
}

void checkModel(const Checkpoint &checkpoint)
{
    const ModelConfig config = readModelConfig(checkpoint);
    checkTensors(checkpoint, familyOf(checkpoint).tensors(config), config.layers, [](kernels::DType) { return true; });
}

} // namespace engine
