// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/checkpoint.h"
#include "engine/runtime/model_runner.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

/// Models for tests: one made in memory from a seed, and a way to run any of them without the serving loop.
namespace tiny_model {

/// A checkpoint that exists only in memory; metadata and tensors can be changed one by one.
class MemoryCheckpoint final : public engine::Checkpoint {
public:
    void set(const std::string &key, engine::MetadataValue value);
    void erase(const std::string &key);
    /// Shape is slowest dimension first.
    void setTensor(const std::string &name, std::vector<std::int64_t> shape, std::vector<float> values);
    void setTensorType(const std::string &name, kernels::DType type, const std::string &typeName);
    void eraseTensor(const std::string &name);
    [[nodiscard]] const std::vector<float> &values(const std::string &name) const { return m_values.at(name); }

    [[nodiscard]] const std::string &path() const override { return m_path; }
    [[nodiscard]] const engine::Metadata &metadata() const override { return m_metadata; }
    [[nodiscard]] const std::vector<engine::TensorInfo> &tensors() const override { return m_tensors; }
    [[nodiscard]] const engine::TensorInfo *find(std::string_view name) const override;
    [[nodiscard]] std::span<const std::byte> bytes(const engine::TensorInfo &tensor) const override;
    [[nodiscard]] std::uint64_t fileBytes() const override { return 0; }
    [[nodiscard]] std::vector<std::string> warnings() const override { return {}; }
    [[nodiscard]] std::string checkUnchanged() const override { return {}; }
    void releasePages(const engine::TensorInfo &) const override { }

private:
    void rebuild();

    std::string m_path = "memory";
    std::map<std::string, engine::MetadataValue> m_entries;
    engine::Metadata m_metadata;
    std::vector<engine::TensorInfo> m_tensors;
    std::map<std::string, std::vector<float>> m_values;
};

struct Sizes {
    int layers = 2;
    int hidden = 32;
    int heads = 4;
    int kvHeads = 2;
    int headDim = 8;
    int intermediate = 48;
    int vocab = 40;
    int contextLength = 256;
    bool biases = false; ///< on q, k, v and the attention output
    bool tied = true;
};

/// A llama of random weights that depend on the seed alone.
[[nodiscard]] MemoryCheckpoint makeLlama(const Sizes &sizes, std::uint32_t seed = 1);

/// The runner of a checkpoint: checked, packed, with room for `maxTokens` tokens and as many rows of logits.
[[nodiscard]] std::unique_ptr<engine::ModelRunner> makeRunner(const engine::Checkpoint &checkpoint,
                                                              const kernels::OpsOptions &options,
                                                              kernels::DType kvType = kernels::DType::F32,
                                                              int maxTokens = 512);

/// The same with operations at hand.
[[nodiscard]] std::unique_ptr<engine::ModelRunner> makeRunner(const engine::Checkpoint &checkpoint,
                                                              std::unique_ptr<kernels::Ops> ops,
                                                              kernels::DType kvType = kernels::DType::F32,
                                                              int maxTokens = 512);

/// One sequence's part of a hand-made step.
struct Piece {
    std::vector<int> ids;    ///< the new tokens
    int first = 0;           ///< position of the first of them
    std::vector<int> blocks; ///< of the whole sequence
};

/// A step of several sequences that wants the logits of every token.
[[nodiscard]] engine::Batch makeBatch(const std::vector<Piece> &pieces, int blockTokens);

/// Logits [ids, vocab] of one sequence, computed in steps of `chunk` tokens (0 = all at once) in the given blocks
/// (empty = 0, 1, 2 ...). \pre the runner has a pool
[[nodiscard]] std::vector<float> allLogits(engine::ModelRunner &runner, const std::vector<int> &ids, int chunk,
                                           int blockTokens, const std::vector<int> &blocks = {});

/// Differences of two equally long lists of logits.
struct Difference {
    double maxAbs = 0;
    double meanAbs = 0;
    double nmse = 0; ///< sum of squared differences over sum of squares of `wanted`
};
[[nodiscard]] Difference compare(std::span<const float> found, std::span<const float> wanted);

} // namespace tiny_model
