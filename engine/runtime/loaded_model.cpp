// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/loaded_model.h"

#include "engine/core/system_memory.h"
#include "engine/models/model_files.h"
#include "engine/models/model_registry.h"
#include "engine/runtime/model_text.h"
#include "engine/runtime/suggested_sampling.h"
#include "engine/text/utf8.h"
#include "kernels/gpus.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>

namespace engine {
namespace {

constexpr int defaultMaxModelLen = 8192;

void checkRules(const AdmissionRules &rules)
{
    if (!(rules.admissionReserve >= 0.0 && rules.admissionReserve <= 0.9))
        throw Error(ErrorCode::InvalidArgument,
                    "admission-reserve is " + std::to_string(rules.admissionReserve)
                        + "; wanted a share from 0 to 0.9");
    if (rules.maxNumQueuedReqs < 0 || rules.maxNumQueuedTokens < 0)
        throw Error(ErrorCode::InvalidArgument,
                    "max-num-queued-reqs is " + std::to_string(rules.maxNumQueuedReqs) + " and max-num-queued-tokens "
                        + std::to_string(rules.maxNumQueuedTokens) + "; wanted at least 1 of each, or 0 for no limit");
}

void checkConfig(const EngineConfig &config)
{
    checkRules(config);
    if (config.device.starts_with("cuda:"))
        kernels::requireGpu(config.device);
    else if (config.device != "auto" && config.device != "cpu" && config.device != "simt")
        throw Error(ErrorCode::NoDevice,
                    "device " + utf8::quoted(config.device) + " is not available; wanted auto, cpu, cuda:N or simt");
    if (!(config.memoryReserve >= 0.0 && config.memoryReserve <= 0.95))
        throw Error(ErrorCode::InvalidArgument,
                    "memory-reserve is " + std::to_string(config.memoryReserve) + "; wanted a share from 0 to 0.95");
    if (config.maxModelLen < 0)
        throw Error(ErrorCode::InvalidArgument,
                    "max-model-len is " + std::to_string(config.maxModelLen)
                        + "; wanted at least 1, or 0 for the default");
}

/// What "auto" is. A model whose keys come from float32 weights keeps them so. So does a mixture of experts in floats
/// of any kind: rounded keys would now and then take another expert than the model itself does. Not every device stores
/// float32.
KvType ownKvType(const Checkpoint &checkpoint, const ModelConfig &model, BackendKind backend, const kernels::Ops &ops)
{
    if (backend == BackendKind::Reference)
        return KvType::F32;
    if (!ops.supportsKv(kernels::DType::F32))
        return KvType::F16;
    for (const char *part : {"attn_k", "attn_qkv", "attn_kv_a_mqa"}) {
        const TensorInfo *keys = checkpoint.find(layerTensor(0, part));
        if (keys == nullptr)
            continue;
        const bool mixture = model.moe.experts > 0 && !kernels::info(keys->type).quantized;
        return keys->type == kernels::DType::F32 || mixture ? KvType::F32 : KvType::F16;
    }
    return KvType::F16;
}

/// The types in force: none of them is Auto. \throws Error InvalidArgument for one that the device does not store
void resolveKvTypes(const Checkpoint &checkpoint, const ModelConfig &model, const kernels::Ops &ops,
                    EngineConfig &config)
{
    if (config.kv.type == KvType::Auto)
        config.kv.type = ownKvType(checkpoint, model, config.backend, ops);
    if (config.kv.valueType == KvType::Auto)
        config.kv.valueType = config.kv.type;
    for (const KvType type : {config.kv.type, config.kv.valueType})
        if (!ops.supportsKv(kvDType(type)))
            throw Error(ErrorCode::InvalidArgument,
                        "kv-cache-dtype is " + kvTypesText(config.kv) + "; device " + config.device
                            + " stores no such keys and values, wanted f16, bf16, q8_0 or fp8");
}

KvTypes kvTypesOf(const ModelConfig &model, const KvPoolConfig &kv)
{
    if (model.latent.used() && kv.type != kv.valueType)
        throw Error(ErrorCode::InvalidArgument,
                    "kv-cache-dtype is " + kvTypesText(kv) + "; wanted one type, as architecture " + model.architecture
                        + " keeps values as parts of its keys");
    return {kvDType(kv.type), kvDType(kv.valueType)};
}

std::unique_ptr<kernels::Ops> openOps(const EngineConfig &config, Profile *profile, std::vector<std::string> &notes)
{
    kernels::OpsOptions options;
    options.device = config.device;
    options.reference = config.backend == BackendKind::Reference;
    options.threads = config.threads;
    options.isa = config.isa;
    options.deterministic = config.deterministic;
    std::unique_ptr<kernels::Ops> ops = kernels::makeOps(options, &notes);
    return profile ? profiled(std::move(ops), *profile) : std::move(ops);
}

/// Says early what would otherwise fail in the middle of packing, or be killed by the system.
void checkMemory(const Checkpoint &checkpoint, const kernels::Ops &ops)
{
    const std::size_t free = ops.freeOwnMemory().value_or(availableMemoryBytes());
    if (ops.keepsSource() || free == 0)
        return;
    std::size_t wanted = 0;
    for (const TensorInfo &tensor : checkpoint.tensors())
        wanted += tensor.bytes;
    if (wanted > free)
        throw Error(ErrorCode::OutOfMemory,
                    "not enough memory for the weights: " + describeBytes(wanted) + " wanted, " + describeBytes(free)
                        + " free");
}

/// Errors about the file's content begin with its path.
template<typename Function> auto namingFile(const std::string &path, Function function) -> decltype(function())
{
    try {
        return function();
    } catch (const Error &error) {
        const std::string message = error.what();
        if (error.code() != ErrorCode::Refused || message.find(path) != std::string::npos)
            throw;
        throw Error(error.code(), path + ": " + message);
    }
}

void addUnusedWarning(const std::vector<std::string> &unused, std::vector<std::string> &warnings)
{
    if (unused.empty())
        return;
    warnings.push_back("tensor " + utf8::quoted(unused.front())
                       + (unused.size() > 1 ? " and " + std::to_string(unused.size() - 1) + " more are" : " is")
                       + " not used by this architecture");
}

int effectiveMaxModelLen(const ModelConfig &model, int wanted, std::vector<std::string> &warnings)
{
    if (wanted == 0)
        return std::min(model.contextLength, defaultMaxModelLen);
    if (wanted > model.contextLength)
        warnings.push_back("max-model-len is lowered from " + std::to_string(wanted) + " to "
                           + std::to_string(model.contextLength) + ", the model's own context length");
    return std::min(wanted, model.contextLength);
}

void checkBlockTokens(int blockTokens)
{
    for (const int allowed : {8, 16, 32, 64, 128}) {
        if (blockTokens == allowed)
            return;
    }
    throw Error(ErrorCode::InvalidArgument,
                "block-size is " + std::to_string(blockTokens) + "; wanted 8, 16, 32, 64 or 128");
}

} // namespace

kernels::DType kvDType(KvType type)
{
    switch (type) {
    case KvType::F32:
        return kernels::DType::F32;
    case KvType::BF16:
        return kernels::DType::BF16;
    case KvType::Q8_0:
        return kernels::DType::Q8_0;
    case KvType::FP8:
        return kernels::DType::E4M3;
    case KvType::F16:
        return kernels::DType::F16;
    case KvType::Auto:
        break;
    }
    throw Error(ErrorCode::Internal, "kvDType: the type auto has not been resolved");
}

std::string chosenDevice(const EngineConfig &config)
{
    if (config.device != "auto")
        return config.device;
    // The reference and levels of instructions are the CPU's.
    return config.backend == BackendKind::Reference || config.isa != "auto" ? "cpu" : kernels::bestDevice();
}

LoadedModel::LoadedModel(const std::string &path, const EngineConfig &config, const ProgressCallback &progress,
                         std::stop_token stop, const OpsWrapper &wrap)
{
    checkConfig(config);
    const auto report = [&progress](double fraction, const char *stage) {
        if (progress)
            progress(fraction, stage);
    };
    report(0.0, "opening the file");
    m_info.path = path;
    m_info.effective = config;
    m_info.effective.device = chosenDevice(config);
    m_checkpoint = openModelFiles(path);
    m_info.warnings = m_checkpoint->warnings();
    namingFile(path, [&] {
        const ModelFamily &family = familyOf(*m_checkpoint);
        const ModelConfig model = readModelConfig(*m_checkpoint);
        if (config.profile)
            m_profile = std::make_unique<Profile>();
        std::unique_ptr<kernels::Ops> ops = openOps(m_info.effective, m_profile.get(), m_info.warnings);
        resolveKvTypes(*m_checkpoint, model, *ops, m_info.effective);
        const KvTypes kvTypes = kvTypesOf(model, m_info.effective.kv);
        if (wrap)
            ops = wrap(std::move(ops));
        const std::vector<ExpectedTensor> expected = family.tensors(model);
        checkTensors(*m_checkpoint, expected, model.layers,
                     [&ops](kernels::DType type) { return ops->supportsWeight(type); });
        addUnusedWarning(unusedTensors(*m_checkpoint, expected), m_info.warnings);
        report(0.0, "reading the vocabulary");
        openText(model);
        checkMemory(*m_checkpoint, *ops);
        WeightLoader loader(
            *m_checkpoint, *ops, [&report](double fraction) { report(fraction, "packing weights"); }, stop);
        std::unique_ptr<Model> network = family.load(model, loader);
        m_runner = std::make_unique<ModelRunner>(std::move(ops), std::move(network), kvTypes, m_profile.get());
    });
    m_info.effective.cudaGraphs = m_runner->setGraphs(config.cudaGraphs);
    if (const std::string changed = m_checkpoint->checkUnchanged(); !changed.empty())
        throw Error(ErrorCode::Refused, changed);
    describe(m_runner->model().config());
    m_info.effective.maxModelLen =
        effectiveMaxModelLen(m_runner->model().config(), config.maxModelLen, m_info.warnings);
    if (const KvPoolConfig &kv = m_info.effective.kv; kv.type == KvType::FP8 || kv.valueType == KvType::FP8)
        m_info.warnings.push_back("kv-cache-dtype fp8 has no scale: numbers beyond 448 are stored as 448, which some "
                                  "models' keys reach; q8_0 has no such limit");
    m_info.kvWindow = m_runner->model().config().keptWindow(m_info.effective.maxModelLen);
    m_info.kvWindowBytesPerToken =
        m_runner->model().config().kvShape(1, m_runner->kvTypes(), m_info.kvWindow).windowBytesPerBlock();
    namingFile(path, [&] { // a device says here what of the model it cannot compute
        for (const std::string &note : {applyLimits(config.limits), applyKvPool(config.kv).note}) {
            if (!note.empty())
                m_info.warnings.push_back(note);
        }
    });
    report(1.0, "ready");
}

LoadedModel::~LoadedModel() = default;

void LoadedModel::openText(const ModelConfig &model)
{
    m_tokenizer = openTokenizer(*m_checkpoint);
    const std::int64_t tokens = m_tokenizer->vocabSize();
    // Rows beyond the tokens are usual padding in folders; GGUF files name their padding.
    std::error_code ignored;
    const bool isFolder = std::filesystem::is_directory(m_checkpoint->path(), ignored);
    if (isFolder ? tokens > model.vocab : tokens < model.vocab)
        m_info.warnings.push_back("tensor token_embd.weight has " + std::to_string(model.vocab) + " rows for "
                                  + std::to_string(tokens) + " tokens");
    openTemplate();
    m_info.sampling = suggestedSampling(m_checkpoint->metadata(), m_info.warnings);
}

void LoadedModel::openTemplate()
{
    try {
        const std::optional<std::string> source = chatTemplateOf(*m_checkpoint);
        if (!source)
            return;
        m_info.chatTemplate = *source;
        m_template.emplace(*source);
    } catch (const Error &error) {
        m_info.warnings.push_back(std::string("the model's chat template cannot be used: ") + error.what());
    }
}

void LoadedModel::describe(const ModelConfig &model)
{
    const kernels::Ops &ops = m_runner->ops();
    m_info.name = model.name;
    m_info.architecture = model.architecture;
    m_info.parameters = model.parameters;
    m_info.fileBytes = static_cast<std::size_t>(m_checkpoint->fileBytes());
    m_info.weightBytes = m_runner->model().weightBytes();
    m_info.bytesPerToken = m_runner->model().bytesPerToken();
    m_info.kvBytesPerToken = model.kvShape(1, m_runner->kvTypes()).bytesPerBlock();
    m_info.layers = model.layers;
    m_info.vocabSize = model.vocab;
    m_info.contextLength = model.contextLength;
    m_info.backend = ops.name();
    m_info.isa = ops.isa();
    m_info.effective.isa = ops.isa();
    m_info.effective.threads = ops.threads();
    if (!m_info.effective.deterministic)
        m_info.warnings.push_back(
            ops.deterministic() ? "no-deterministic changes nothing for this model on this device: no faster product "
                                  "that depends on the batch was found for its weights"
                                : "no-deterministic is in force: products of many rows are faster ones that round "
                                  "otherwise, so tokens may depend on what runs beside a request");
    m_info.effective.deterministic = ops.deterministic();
}

/// Before room is made for a request that runs; 0 when not one block fits.
std::int64_t LoadedModel::wantedBlocks(const KvPoolConfig &kv, const BatchLimits &limits, const KvShape &shape,
                                       std::size_t free) const
{
    if (kv.numBlocks > 0)
        return kv.numBlocks;
    const std::int64_t perSequence = (std::int64_t{m_info.effective.maxModelLen} + kv.blockTokens - 1) / kv.blockTokens;
    const std::int64_t useful = perSequence * limits.maxNumSeqs;
    const KvSizes unbounded{std::numeric_limits<int>::max(), kv.blockTokens, m_info.kvWindow};
    const int windowBlocks = windowBlocksFor(unbounded, limits.maxNumSeqs, limits.maxNumBatchedTokens);
    if (kv.budgetBytes > 0) {
        const std::int64_t fit = KvCache::blocksThatFit(shape, kv.budgetBytes, windowBlocks);
        // Where all layers have the window, more blocks take no bytes: then as many as can be used.
        return shape.windowLayers() == shape.layers ? std::min(fit, std::max<std::int64_t>(useful, windowBlocks)) : fit;
    }
    return std::min<std::int64_t>(
        useful, free > 0 ? std::max(1, KvCache::blocksThatFit(shape, free / 4, windowBlocks)) : perSequence);
}

KvPoolPlan LoadedModel::planKvPool(const KvPoolConfig &kv, const BatchLimits &limits, std::int64_t leastTokens) const
{
    checkBlockTokens(kv.blockTokens);
    const KvShape shape = m_runner->model().config().kvShape(kv.blockTokens, m_runner->kvTypes(), m_info.kvWindow);
    const int maxModelLen = m_info.effective.maxModelLen;
    const std::int64_t perSequence = (std::int64_t{maxModelLen} + kv.blockTokens - 1) / kv.blockTokens;
    const std::size_t free = m_runner->ops().freeOwnMemory().value_or(availableMemoryBytes());

    std::int64_t blocks = wantedBlocks(kv, limits, shape, free);
    const std::int64_t least = (leastTokens + kv.blockTokens - 1) / kv.blockTokens;
    const bool raised = blocks < least;
    blocks = std::max(blocks, least);
    const auto most = static_cast<std::size_t>(KvCache::blocksThatFit(shape, SIZE_MAX));
    KvSizes sizes{static_cast<int>(std::clamp<std::int64_t>(blocks, 1, std::numeric_limits<int>::max())),
                  kv.blockTokens, m_info.kvWindow};
    sizes.windowBlocks = windowBlocksFor(sizes, limits.maxNumSeqs, limits.maxNumBatchedTokens);
    const std::size_t wanted = shape.bytes(sizes);
    const auto usable = static_cast<std::size_t>(static_cast<double>(free) * (1.0 - m_info.effective.memoryReserve));
    if (static_cast<std::size_t>(blocks) > most || (free > 0 && wanted > usable && wanted > m_runner->kvBytes()))
        throw Error(ErrorCode::OutOfMemory,
                    "not enough memory for the KV cache: " + describeBytes(wanted) + " wanted, " + describeBytes(free)
                        + " free, of which " + std::to_string(std::lround(m_info.effective.memoryReserve * 100))
                        + " % stay reserved");
    if (blocks == 0)
        throw Error(ErrorCode::OutOfMemory,
                    "a KV budget of " + std::to_string(kv.budgetBytes) + " bytes holds no block; one of "
                        + std::to_string(kv.blockTokens) + " tokens takes " + std::to_string(shape.bytesPerBlock())
                        + " bytes");
    KvPoolPlan plan;
    plan.blocks = static_cast<int>(blocks);
    plan.blockTokens = kv.blockTokens;
    plan.windowBlocks = sizes.windowBlocks;
    plan.bytes = wanted;
    if (raised)
        plan.note = "the KV pool keeps " + std::to_string(blocks) + " blocks of " + std::to_string(kv.blockTokens)
            + " tokens, as a running request was promised room for " + std::to_string(leastTokens);
    else if (blocks < perSequence)
        plan.note = "the KV pool holds " + std::to_string(blocks * kv.blockTokens)
            + " tokens, less than one request of max-model-len " + std::to_string(maxModelLen);
    return plan;
}

KvPoolPlan LoadedModel::applyKvPool(const KvPoolConfig &kv)
{
    KvPoolPlan plan = planKvPool(kv, m_info.effective.limits);
    installKvPool(effectiveKv(kv, plan), {});
    return plan;
}

KvPoolConfig LoadedModel::effectiveKv(const KvPoolConfig &kv, const KvPoolPlan &plan) const
{
    KvPoolConfig effective = kv;
    effective.type = m_info.effective.kv.type; // both fixed when the model was loaded
    effective.valueType = m_info.effective.kv.valueType;
    effective.numBlocks = plan.blocks;
    effective.windowBlocks = plan.windowBlocks;
    effective.budgetBytes = plan.bytes;
    return effective;
}

void LoadedModel::installKvPool(const KvPoolConfig &effective, std::span<const SlotMove> moves)
{
    m_runner->repageKv({effective.numBlocks, effective.blockTokens, m_info.kvWindow, effective.windowBlocks}, moves);
    m_info.effective.kv = effective;
}

std::string LoadedModel::applyLimits(const BatchLimits &limits)
{
    if (limits.maxNumSeqs < 1 || limits.maxNumBatchedTokens < 1)
        throw Error(ErrorCode::InvalidArgument,
                    "max-num-seqs is " + std::to_string(limits.maxNumSeqs) + " and max-num-batched-tokens "
                        + std::to_string(limits.maxNumBatchedTokens) + "; wanted at least 1 of each");
    BatchLimits effective = limits;
    std::string note;
    if (limits.maxNumSeqs > limits.maxNumBatchedTokens) {
        effective.maxNumSeqs = limits.maxNumBatchedTokens;
        note = "max-num-seqs is lowered from " + std::to_string(limits.maxNumSeqs) + " to "
            + std::to_string(effective.maxNumSeqs) + ", as a step holds no more tokens";
    }
    m_runner->reserve(effective.maxNumBatchedTokens, effective.maxNumSeqs);
    m_info.effective.limits = effective;
    m_info.workspaceBytes = m_runner->workspaceBytes();
    return note;
}

void LoadedModel::applyRules(const AdmissionRules &rules)
{
    checkRules(rules);
    static_cast<AdmissionRules &>(m_info.effective) = rules;
}

void LoadedModel::applyThreads(int threads)
{
    m_runner->setThreads(threads);
    m_info.effective.threads = m_runner->threads();
}

} // namespace engine
