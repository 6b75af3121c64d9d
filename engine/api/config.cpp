// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/config.h"

namespace engine {

const char *kvTypeName(KvType type)
{
    switch (type) {
    case KvType::F32:
        return "f32";
    case KvType::F16:
        return "f16";
    case KvType::BF16:
        return "bf16";
    case KvType::Q8_0:
        return "q8_0";
    case KvType::FP8:
        return "fp8";
    case KvType::Auto:
        break;
    }
    return "auto";
}

std::string kvTypesText(const KvPoolConfig &kv)
{
    const std::string keys = kvTypeName(kv.type);
    return kv.valueType == KvType::Auto || kv.valueType == kv.type ? keys : keys + "," + kvTypeName(kv.valueType);
}

} // namespace engine
