// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/model_registry.h"

namespace engine {
namespace {

/// Queries and keys are normed after they were rotated. Files have the base that the scaling of the original
/// configuration gives. Source: transformers, models/hunyuan_v1_dense.
ModelConfig readHunyuanConfig(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint);
    refuseExperts(config);
    refuseLogitScale(checkpoint, config);
    config.queryKeyNorm = QueryKeyNorm::Head;
    config.normAfterRope = true;
    return config;
}

} // namespace

ModelFamily hunyuanFamily()
{
    return {"hunyuan-dense", readHunyuanConfig, decoderTensors, loadDecoder};
}

} // namespace engine
