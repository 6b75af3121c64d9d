// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/ops.h"
#include "tests/cuda/device_rig.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

/// Attention over cases made by name: the kernels in the emulator, and what they should give.
namespace attention_rig {

using kernels::DType;
using kernels::cuda::StreamHandle;

/// The last `tokens` of a sequence's `context` are queries; without context they only fill the step. Its numbers depend
/// on its name and their positions alone.
struct Sequence {
    int name = 0;
    int context = 0;
    int tokens = 0;
};

struct Case {
    int heads = 4;
    int kvHeads = 2;
    int headDim = 64;
    int blockTokens = 16;
    DType keys = DType::F16;
    DType values = DType::F16;
    int window = 0;
    float softCap = 0.0F;
    bool sinks = false;
    bool split = false; ///< blocks share the keys of a row
    int gap = 3;        ///< behind rows of queries and outputs
    int valueDim = 0;   ///< not 0: values are so many elements of the keys
    /// Of all query tokens: which tokens of their sequence's step they see; empty = all up to themselves.
    std::vector<std::uint64_t> tree{};
    std::vector<Sequence> sequences;

    [[nodiscard]] kernels::AttentionShape shape(const std::vector<float> &sinkScores) const
    {
        kernels::AttentionShape shape;
        shape.heads = heads;
        shape.kvHeads = kvHeads;
        shape.headDim = headDim;
        shape.scale = 1.0F / std::sqrt(static_cast<float>(headDim));
        shape.window = window;
        shape.softCap = softCap;
        shape.sinks = sinks ? sinkScores.data() : nullptr;
        shape.valuesInKeys = valueDim > 0;
        shape.valueDim = valueDim;
        return shape;
    }
    [[nodiscard]] int outDim() const { return valueDim > 0 ? valueDim : headDim; }
};

/// Everything a launch reads, on the host and as it lies on the device.
class Step {
public:
    Step(const Case &c, std::uint32_t placement);

    [[nodiscard]] std::vector<float> reference() const;
    /// In float64, every token over the tokens that it sees by the tree. \pre one sequence
    [[nodiscard]] std::vector<float> treeReference() const;
    /// Outputs of the kernels, or nothing with the reason in `wrong`.
    [[nodiscard]] std::vector<float> run(StreamHandle stream, std::string &wrong) const;

private:
    void store(const Sequence &sequence, std::size_t index);
    void forgetUnseen(const Sequence &sequence, std::size_t index);
    [[nodiscard]] kernels::cuda::KvPlane plane(std::byte *data, DType type) const;

    Case m_case;
    kernels::KvLayer m_layer;
    std::vector<std::byte> m_bytes;
    std::vector<int> m_starts{0};
    std::vector<int> m_contexts;
    std::vector<int> m_tables;
    int m_maxBlocks = 0;
    int m_splits = 1;
    std::vector<float> m_queries; ///< [tokens, heads, headDim]
    std::vector<float> m_sinks;
    std::vector<kernels::cuda::AttentionTile> m_tiles;
};

/// Runs the case under all schedules against its reference. Returns what is wrong, or nothing.
[[nodiscard]] std::string check(const Case &c);
/// Outputs of a case, its blocks placed by chance. \throws std::runtime_error when anything else was written to
[[nodiscard]] std::vector<float> outputs(const Case &c, std::uint32_t placement, StreamHandle stream);

} // namespace attention_rig
