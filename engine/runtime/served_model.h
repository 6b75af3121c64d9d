// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/config.h"
#include "engine/api/events.h"
#include "engine/runtime/loaded_model.h"
#include "engine/runtime/step_executor.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

namespace engine {

/// What the serving loop needs of a loaded model: LoadedModel, or a fake one in tests of the loop.
/// Thread: the engine thread; `tokenizer` any.
class ServedModel {
public:
    virtual ~ServedModel() = default;

    [[nodiscard]] virtual const ModelInfo &info() const = 0; ///< `effective` as in force now
    [[nodiscard]] virtual const Tokenizer &tokenizer() const = 0;
    [[nodiscard]] virtual const ChatTemplate *chatTemplate() const = 0; ///< null when it has none
    [[nodiscard]] virtual StepExecutor &executor() = 0;
    /// Each changes info().effective and says why it differs from what was asked for, else nothing.
    /// \throws Error; the old value stays in force
    /// The pool that `kv` gives with the memory that is free now, and room for one request of `leastTokens` tokens:
    /// `effective` receives its sizes. Changes nothing.
    virtual std::string planKvPool(const KvPoolConfig &kv, std::int64_t leastTokens, KvPoolConfig &effective) const = 0;
    /// Replaces the pool by a planned one and carries tokens over.
    virtual void installKvPool(const KvPoolConfig &effective, std::span<const SlotMove> moves) = 0;
    virtual std::string applyLimits(const BatchLimits &limits) = 0;
    virtual std::string applyRules(const AdmissionRules &rules) = 0;
    virtual std::string applyThreads(int threads) = 0;
    /// Whether weights, cache and device are those of another process, so that a new one can take its place.
    [[nodiscard]] virtual bool isRemote() const { return false; }
    /// Empty while the files are the ones that were opened; else one sentence.
    [[nodiscard]] virtual std::string checkFileUnchanged() const = 0;
};

/// Opens a model; calls `progress` between pieces of work. \throws Error
using ModelLoader = std::function<std::unique_ptr<ServedModel>(
    const std::string &path, const EngineConfig &config,
    const std::function<void(double fraction, const std::string &stage)> &progress, std::stop_token stop)>;

} // namespace engine
