// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/config.h"
#include "engine/api/events.h"
#include "engine/runtime/batch.h"
#include "engine/runtime/sampler.h"
#include "engine/runtime/sampling_requests.h"
#include "engine/runtime/worker/wire.h"

#include <cstdint>
#include <string>

namespace engine {

/// What an engine asks of its worker, and what comes back. Every call has one answer, Done or Failed; Load has Progress
/// before it.
enum class WorkerCall : std::uint32_t {
    // To the worker.
    Load,         ///< path, EngineConfig -> ModelInfo, WorkerFacts
    PlanPool,     ///< KvPoolConfig, least tokens -> KvPoolConfig, note
    InstallPool,  ///< KvPoolConfig, moves -> ModelInfo
    Limits,       ///< BatchLimits -> ModelInfo, note
    Rules,        ///< AdmissionRules -> ModelInfo, note
    Threads,      ///< threads -> ModelInfo, note
    CopyBlock,    ///< BlockCopy
    Run,          ///< Batch -> logits
    RunAndSample, ///< Batch, SamplingRequests -> Sampled, StepExecutor::takeNotice
    // From it.
    Progress, ///< fraction, stage
    Done,
    Failed, ///< WorkerFailure
};

/// What does not change while a model is loaded.
struct WorkerFacts {
    int vocabSize = 0;
    RopeVariants ropeVariants;
    bool samples = false;
};

struct WorkerFailure {
    ErrorCode code = ErrorCode::Internal;
    bool isLost = false; ///< the device is, and the worker has ended
    std::string message;
};

template<typename Wire> void wireFields(Wire &wire, Is<WorkerFailure> auto &failure)
{
    wire(failure.code, failure.isLost, failure.message);
}

template<typename Wire> void wireFields(Wire &wire, Is<EngineConfig> auto &config)
{
    wire(config.policy, config.admissionReserve, config.maxNumQueuedReqs, config.maxNumQueuedTokens);
    wire(config.device, config.process, config.deviceRestarts, config.threads, config.isa, config.backend,
         config.maxModelLen, config.memoryReserve, config.stepTimeoutSeconds, config.deterministic, config.onDeviceLoss,
         config.cudaGraphs, config.profile, config.baselines, config.limits, config.kv);
}

template<typename Wire> void wireFields(Wire &wire, Is<ModelInfo> auto &info)
{
    wire(info.path, info.name, info.architecture, info.chatTemplate, info.sampling, info.parameters, info.fileBytes,
         info.weightBytes, info.workspaceBytes, info.bytesPerToken, info.kvBytesPerToken, info.kvWindow,
         info.kvWindowBytesPerToken, info.layers, info.vocabSize, info.contextLength, info.backend, info.isa,
         info.effective, info.warnings);
}

template<typename Wire> void wireFields(Wire &wire, Is<ForwardBatch> auto &batch)
{
    wire(batch.tokenIds, batch.positions, batch.slotIds, batch.queryStarts, batch.contextLengths, batch.blockTables,
         batch.maxBlocks, batch.windowSlotIds, batch.windowTables, batch.logitRows, batch.ropeVariants);
}

/// Copies are calls of their own.
template<typename Wire> void wireFields(Wire &wire, Is<Batch> auto &batch)
{
    wire(batch.forward, batch.rows);
}

template<typename Wire> void wireFields(Wire &wire, Is<SamplingRequests> auto &requests)
{
    requests.wire(wire);
}

template<typename Wire> void wireFields(Wire &wire, Is<Sampled> auto &sampled)
{
    wire(sampled.token, sampled.logprob, sampled.top, sampled.error);
}

} // namespace engine
