// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/model_runner.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <thread>

namespace engine {

ModelRunner::ModelRunner(std::unique_ptr<kernels::Ops> ops, std::unique_ptr<Model> model, const KvTypes &kvTypes,
                         Profile *profile)
    : m_ops(std::move(ops))
    , m_stream(m_ops->makeStream())
    , m_model(std::move(model))
    , m_kvTypes(kvTypes)
    , m_profile(profile)
{
    if (m_profile)
        m_model->setLayerCallback([this](int layer) { m_profile->setLayer(layer); });
}

ModelRunner::~ModelRunner() = default;

std::unique_ptr<KvCache> ModelRunner::newKv(const KvSizes &sizes)
{
    const KvShape shape = m_model->config().kvShape(sizes.blockTokens, m_kvTypes, sizes.window);
    return std::make_unique<KvCache>(shape, sizes.blocks, *m_ops, sizes.windowBlocks);
}

void ModelRunner::resizeKv(const KvSizes &sizes)
{
    if (!m_kv) {
        m_kv = newKv(sizes);
        planSteps();
        return;
    }
    const KvShape oldShape = m_kv->shape();
    const int oldBlocks = m_kv->blocks();
    const int oldWindowBlocks = m_kv->windowBlocks();
    m_kv.reset(); // both pools at once might not fit
    try {
        m_kv = newKv(sizes);
        planSteps();
    } catch (const kernels::Error &) {
        m_kv.reset();
        m_kv = std::make_unique<KvCache>(oldShape, oldBlocks, *m_ops, oldWindowBlocks);
        throw;
    }
}

void ModelRunner::repageKv(const KvSizes &sizes, std::span<const SlotMove> moves)
{
    if (!m_kv || moves.empty()) {
        resizeKv(sizes);
        return;
    }
    // Both pools exist for a moment; of the new one the system commits what is moved, no more.
    auto kv = newKv(sizes);
    kv->moveTokens(*m_kv, moves);
    m_kv.swap(kv);
    try {
        planSteps();
    } catch (const kernels::Error &) {
        m_kv.swap(kv);
        throw;
    }
}

std::unique_ptr<KvCache> ModelRunner::makeKv(const KvTypes &types)
{
    CHECK(m_kv);
    KvShape shape = m_kv->shape();
    shape.types = types;
    return std::make_unique<KvCache>(shape, m_kv->blocks(), *m_ops, m_kv->windowBlocks());
}

void ModelRunner::reserve(int maxTokens, int maxLogitRows)
{
    CHECK(maxTokens >= 1 && maxLogitRows >= 1);
    const int tokens = std::max(maxTokens, m_maxTokens);
    const int rows = std::min(std::max(maxLogitRows, m_maxLogitRows), tokens);
    if (tokens == m_maxTokens && rows == m_maxLogitRows)
        return;
    m_model->reserve(tokens, rows);
    if (rows != m_maxLogitRows) {
        m_logits = Tensor(*m_ops, kernels::DType::F32, std::array{std::int64_t{rows}, std::int64_t{vocabSize()}});
        if (m_ops->freeOwnMemory())
            m_hostLogits = m_ops->allocateStaging(m_logits.bytes());
    }
    m_maxTokens = tokens;
    m_maxLogitRows = rows;
    planSteps();
}

/// As many sequences as there are rows of logits, the last with most of the tokens; all in the pool's first blocks, as
/// nothing is computed.
ForwardBatch ModelRunner::largestBatch() const
{
    ForwardBatch batch;
    const int sequences = m_maxLogitRows;
    const int longest = m_maxTokens - sequences + 1;
    const int blockTokens = m_kv->shape().blockTokens;
    batch.maxBlocks = std::max(m_kv->blocks(), (longest + blockTokens - 1) / blockTokens);
    batch.tokenIds.assign(static_cast<std::size_t>(m_maxTokens), 0);
    batch.positions.assign(batch.tokenIds.size(), 0);
    batch.slotIds.assign(batch.tokenIds.size(), 0);
    batch.queryStarts.push_back(0);
    for (int s = 0; s < sequences; ++s) {
        const int tokens = s + 1 < sequences ? 1 : longest;
        batch.queryStarts.push_back(batch.queryStarts.back() + tokens);
        batch.contextLengths.push_back(tokens);
        batch.logitRows.push_back(batch.queryStarts.back() - 1);
    }
    batch.blockTables.assign(static_cast<std::size_t>(sequences) * static_cast<std::size_t>(batch.maxBlocks), 0);
    if (m_kv->windowBlocks() > 0) {
        batch.windowSlotIds = batch.slotIds;
        batch.windowTables = batch.blockTables;
    }
    batch.ropeVariants.clear();
    return batch;
}

void ModelRunner::planSteps()
{
    if (!m_kv || m_logits.empty() || !m_stream->plan(true))
        return;
    const ForwardBatch batch = largestBatch();
    try {
        m_model->forward(batch, *m_kv, m_logits.rows(m_maxLogitRows), *m_stream);
    } catch (...) {
        (void)m_stream->plan(false);
        throw;
    }
    (void)m_stream->plan(false);
}

kernels::TensorView ModelRunner::run(const Batch &batch)
{
    CHECK(m_kv && !m_logits.empty());
    kernels::TensorView logits = m_logits.rows(static_cast<std::int64_t>(batch.forward.logitRows.size()));
    const auto start = std::chrono::steady_clock::now();
    if (m_profile)
        m_profile->setLayer(Profile::before);
    m_model->forward(batch.forward, *m_kv, logits, *m_stream);
    if (m_hostLogits) {
        m_ops->transfer(logits.data, m_hostLogits->data(), static_cast<std::size_t>(logits.elements()) * sizeof(float),
                        *m_stream);
        logits.data = m_hostLogits->data();
    }
    m_stream->synchronize();
    if (m_profile)
        m_profile->addStep(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return logits;
}

void ModelRunner::copyBlock(const BlockCopy &copy)
{
    CHECK(m_kv);
    m_kv->copyBlock(copy, *m_stream);
    m_stream->synchronize();
}

void ModelRunner::setThreads(int threads)
{
    if (threads < 0)
        throw kernels::Error(kernels::ErrorCode::InvalidArgument,
                             "threads is " + std::to_string(threads) + "; wanted at least 1, or 0 for all cores");
    m_ops->setThreads(threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
}

std::size_t ModelRunner::workspaceBytes() const
{
    return m_maxTokens == 0 ? 0 : m_model->workspaceBytes(m_maxTokens, m_maxLogitRows) + m_logits.bytes();
}

} // namespace engine
