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

void ModelRunner::resizeKv(int blocks, int blockTokens)
{
    const KvShape shape = m_model->config().kvShape(blockTokens, m_kvTypes);
    if (!m_kv) {
        m_kv = std::make_unique<KvCache>(shape, blocks, *m_ops);
        return;
    }
    const KvShape oldShape = m_kv->shape();
    const int oldBlocks = m_kv->blocks();
    m_kv.reset(); // both pools at once might not fit
    try {
        m_kv = std::make_unique<KvCache>(shape, blocks, *m_ops);
    } catch (const kernels::Error &) {
        m_kv = std::make_unique<KvCache>(oldShape, oldBlocks, *m_ops);
        throw;
    }
}

void ModelRunner::repageKv(int blocks, int blockTokens, std::span<const SlotMove> moves)
{
    if (!m_kv || moves.empty()) {
        resizeKv(blocks, blockTokens);
        return;
    }
    // Both pools exist for a moment; of the new one the system commits what is moved, no more.
    const KvShape shape = m_model->config().kvShape(blockTokens, m_kvTypes);
    auto kv = std::make_unique<KvCache>(shape, blocks, *m_ops);
    kv->moveTokens(*m_kv, moves);
    m_kv = std::move(kv);
}

std::unique_ptr<KvCache> ModelRunner::makeKv(const KvTypes &types)
{
    CHECK(m_kv);
    KvShape shape = m_kv->shape();
    shape.types = types;
    return std::make_unique<KvCache>(shape, m_kv->blocks(), *m_ops);
}

void ModelRunner::reserve(int maxTokens, int maxLogitRows)
{
    CHECK(maxTokens >= 1 && maxLogitRows >= 1);
    const int tokens = std::max(maxTokens, m_maxTokens);
    const int rows = std::min(std::max(maxLogitRows, m_maxLogitRows), tokens);
    if (tokens == m_maxTokens && rows == m_maxLogitRows)
        return;
    m_model->reserve(tokens, rows);
    if (rows != m_maxLogitRows)
        m_logits = Tensor(*m_ops, kernels::DType::F32, std::array{std::int64_t{rows}, std::int64_t{vocabSize()}});
    m_maxTokens = tokens;
    m_maxLogitRows = rows;
}

kernels::TensorView ModelRunner::run(const Batch &batch)
{
    CHECK(m_kv && !m_logits.empty());
    const kernels::TensorView logits = m_logits.rows(static_cast<std::int64_t>(batch.forward.logitRows.size()));
    const auto start = std::chrono::steady_clock::now();
    if (m_profile)
        m_profile->setLayer(Profile::before);
    m_model->forward(batch.forward, *m_kv, logits, *m_stream);
    m_stream->synchronize();
    if (m_profile)
        m_profile->addStep(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return logits;
}

void ModelRunner::copyBlock(int from, int to)
{
    CHECK(m_kv);
    m_kv->copyBlock(from, to, *m_stream);
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
