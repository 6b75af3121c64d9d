// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/runtime/served_model.h"
#include "tests/support/fake_model.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

/// A vocabulary of 64 small tokens: 0 is BOS and 1 the end token (both control), letters, digits, and the three bytes
/// of a euro sign one by one. `encode` takes the longest token that fits.
class FakeTokenizer final : public engine::Tokenizer {
public:
    static constexpr int size = 64;
    static constexpr int bosId = 0;
    static constexpr int endId = 1;

    FakeTokenizer();
    [[nodiscard]] std::vector<int> encode(std::string_view text, const engine::EncodeOptions &options) const override;
    [[nodiscard]] std::string decode(const std::vector<int> &ids, bool skipSpecial) const override;
    [[nodiscard]] std::string piece(int id) const override { return m_pieces.at(static_cast<std::size_t>(id)); }
    [[nodiscard]] int vocabSize() const override { return size; }
    [[nodiscard]] bool isControl(int id) const override { return id == bosId || id == endId; }
    [[nodiscard]] std::string bytes(int id, bool skipSpecial) const override;
    [[nodiscard]] std::optional<int> bos() const override { return bosId; }
    [[nodiscard]] std::optional<int> eos() const override { return endId; }
    [[nodiscard]] bool addsBos() const override { return true; }
    [[nodiscard]] bool isEndOfGeneration(int id) const override { return id == endId; }
    [[nodiscard]] std::optional<int> find(std::string_view piece) const override;

private:
    std::vector<std::string> m_pieces;
};

/// What a test may change while an engine serves; owned by the test, used by the engine thread.
struct FakeControls {
    std::function<void(const engine::Batch &)> beforeRun;
    std::function<void(const engine::BatchRow &, std::span<float>)> spoil;
    std::function<void(int tensor)> duringLoad; ///< called before each of the five pieces of a load
    int window = 0;                             ///< as ModelInfo::kvWindow
    std::atomic<bool> fileChanged = false;
    std::atomic<bool> poolFails = false;
    std::atomic<int> alive = 0; ///< models that exist
};

/// A loaded model on FakeModel. A path that begins with "bad" is refused.
class FakeServedModel final : public engine::ServedModel {
public:
    static constexpr int bytesPerToken = 64;       ///< of its KV cache
    static constexpr int windowBytesPerToken = 32; ///< beside that, with a window

    FakeServedModel(const std::string &path, const engine::EngineConfig &config, FakeControls &controls);
    ~FakeServedModel() override;

    [[nodiscard]] const engine::ModelInfo &info() const override { return m_info; }
    [[nodiscard]] const engine::Tokenizer &tokenizer() const override { return m_tokenizer; }
    [[nodiscard]] const engine::ChatTemplate *chatTemplate() const override { return nullptr; }
    [[nodiscard]] engine::StepExecutor &executor() override { return m_model; }
    std::string planKvPool(const engine::KvPoolConfig &kv, std::int64_t leastTokens,
                           engine::KvPoolConfig &effective) const override;
    void installKvPool(const engine::KvPoolConfig &effective, std::span<const engine::SlotMove> moves) override;
    std::string applyLimits(const engine::BatchLimits &limits) override;
    std::string applyRules(const engine::AdmissionRules &rules) override;
    std::string applyThreads(int threads) override;
    [[nodiscard]] std::string checkFileUnchanged() const override;

    /// The loader for LocalEngine. \pre `controls` outlives the engine
    [[nodiscard]] static engine::ModelLoader loader(FakeControls &controls);

private:
    FakeControls &m_controls;
    FakeTokenizer m_tokenizer;
    FakeModel m_model;
    engine::ModelInfo m_info;
};
