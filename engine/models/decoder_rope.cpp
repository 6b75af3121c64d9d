// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/decoder_rope.h"

namespace engine {
namespace {

using kernels::TensorView;

std::vector<float> readFactors(const char *name, WeightLoader &loader)
{
    std::vector<float> factors = loader.values(name);
    for (const float factor : factors) {
        if (!(factor > 0.0F && factor < 1e9F))
            throw Error(ErrorCode::Refused,
                        "tensor " + std::string(name) + " holds " + std::to_string(factor)
                            + "; wanted finite, positive factors");
    }
    return factors;
}

TensorView rowsFrom(const TensorView &heads, std::int64_t first, std::int64_t count)
{
    TensorView view = heads;
    view.data = heads.data + first * heads.strides[0] * static_cast<std::int64_t>(sizeof(float));
    view.shape[0] = count;
    return view;
}

} // namespace

DecoderRope::DecoderRope(const ModelConfig &config, WeightLoader &loader)
    : m_ops(loader.ops())
    , m_rope(config.rope)
{
    if (m_rope.scaling != RopeScaling::LongRope) {
        m_factors = readFactors("rope_freqs.weight", loader);
    } else if (m_rope.shortFactors.empty()) {
        m_factors = readFactors("rope_factors_short.weight", loader);
        m_longFactors = readFactors("rope_factors_long.weight", loader);
    } else {
        m_factors = m_rope.shortFactors;
        m_longFactors = m_rope.longFactors;
    }
    if (!m_factors.empty() && m_rope.scaling == RopeScaling::Llama3)
        m_rope.scaling = RopeScaling::None; // the factors say the same already
    m_table = makeRopeTable(m_rope, m_factors);
    m_variantTable = m_table;
    m_localTable = makeRopeTable(config.localRope, {});
}

const kernels::RopeTable &DecoderRope::table(int variant)
{
    if (variant == 0)
        return m_table;
    if (variant != m_variant) {
        fillRopeTable(m_rope, m_rope.scaling == RopeScaling::LongRope ? m_longFactors : m_factors, variant,
                      m_variantTable);
        m_variant = variant;
    }
    return m_variantTable;
}

void DecoderRope::apply(const LayerConfig &layer, TensorView heads, const DecoderStep &step)
{
    if (!layer.rotates)
        return;
    const ForwardBatch &batch = step.batch;
    if (layer.localRope || batch.ropeVariants.empty()) {
        m_ops.rope(heads, batch.positions, layer.localRope ? m_localTable : m_table, step.stream);
        return;
    }
    const std::size_t sequences = batch.ropeVariants.size();
    CHECK(batch.queryStarts.size() == sequences + 1);
    for (std::size_t first = 0; first < sequences;) {
        std::size_t last = first + 1;
        while (last < sequences && batch.ropeVariants[last] == batch.ropeVariants[first])
            ++last;
        const int begin = batch.queryStarts[first];
        const int count = batch.queryStarts[last] - begin;
        const std::span positions(batch.positions.data() + begin, static_cast<std::size_t>(count));
        m_ops.rope(rowsFrom(heads, begin, count), positions, table(batch.ropeVariants[first]), step.stream);
        first = last;
    }
}

} // namespace engine
