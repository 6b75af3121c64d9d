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
    resetGovernor();
    if (m_profile)
        m_model->setLayerCallback([this](int layer) { m_profile->setLayer(layer); });
    (void)setGraphs(true);
}

ModelRunner::~ModelRunner() = default;

bool ModelRunner::setGraphs(bool on)
{
    const bool graphs = on && m_ops->capturesSteps() && m_profile == nullptr;
    m_stream->forgetSteps();
    if (graphs == m_graphs)
        return graphs;
    m_graphs = graphs;
    planSteps();
    return graphs;
}

void ModelRunner::setRouterCallback(RouterCallback callback)
{
    m_traced = static_cast<bool>(callback);
    m_model->setRouterCallback(std::move(callback));
}

void ModelRunner::exchangeKv(std::unique_ptr<KvCache> &other)
{
    m_stream->forgetSteps();
    m_kv.swap(other);
}

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
    m_stream->forgetSteps();
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
    m_stream->forgetSteps();
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

int ModelRunner::mostBlocks() const
{
    const int blockTokens = m_kv->shape().blockTokens;
    return std::min(m_kv->blocks(), (m_model->config().contextLength + blockTokens - 1) / blockTokens);
}

/// As many sequences as there are rows of logits, the last with most of the tokens; all in the pool's first blocks, as
/// nothing is computed.
ForwardBatch ModelRunner::largestBatch() const
{
    ForwardBatch batch;
    const int sequences = m_maxLogitRows;
    const int longest = m_maxTokens - sequences + 1;
    const int blockTokens = m_kv->shape().blockTokens;
    batch.maxBlocks = std::max(mostBlocks(), (longest + blockTokens - 1) / blockTokens);
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
    return batch;
}

ForwardBatch ModelRunner::largestVariants() const
{
    ForwardBatch batch = largestBatch();
    const RopeVariants variants = ropeVariants();
    for (int s = 0; s < m_maxLogitRows; ++s)
        batch.ropeVariants.push_back(variants.of(variants.switchLength + (variants.perLength ? s : s % 2)));
    return batch;
}

/// Beside the rows: the tokens of requests with penalties, as many as the pool holds, limits of choice, and
/// log-probabilities.
void ModelRunner::planSampling(const kernels::TensorView &logits)
{
    constexpr int mostHistory = 1 << 20;
    constexpr int usualLogprobs = 20;
    const auto count = static_cast<std::size_t>(m_maxLogitRows);
    const std::vector<kernels::SamplingRow> rows(count);
    const std::int64_t pooled = std::int64_t{m_kv->blocks()} * m_kv->shape().blockTokens;
    const std::vector<int> history(static_cast<std::size_t>(std::min<std::int64_t>(pooled, mostHistory)));
    const std::vector<std::uint64_t> allowed(count * static_cast<std::size_t>((vocabSize() + 63) / 64));
    sample(logits, {rows, history, {}, allowed, usualLogprobs});
}

void ModelRunner::planSteps()
{
    if (!m_kv || m_logits.empty() || !m_stream->plan(true))
        return;
    try {
        const kernels::TensorView logits = m_logits.rows(m_maxLogitRows);
        const bool variants = ropeVariants().switchLength > 0;
        m_model->forward(variants ? largestVariants() : largestBatch(), *m_kv, logits, *m_stream);
        if (m_ops->samples())
            planSampling(logits);
        if (m_graphs) {
            m_padded.fillLargest(m_maxLogitRows, mostBlocks(), m_kv->windowBlocks() > 0);
            m_stream->runStep(m_padded.shape(), m_padded.inputs(),
                              [&] { m_model->forward(m_padded.forward(), *m_kv, logits, *m_stream); });
        }
    } catch (...) {
        (void)m_stream->plan(false);
        throw;
    }
    (void)m_stream->plan(false);
}

void ModelRunner::chooseThreads()
{
    if (m_ops->name() != "cpu")
        return;
    m_stepThreads = m_governor.threads();
    if (m_stepThreads != m_ops->usedThreads())
        m_ops->useThreads(m_stepThreads);
}

/// Logits of the batch's rows, and where the step is filled up to a shape, of rows after them.
void ModelRunner::forward(const ForwardBatch &batch)
{
    if (!m_graphs || m_traced || !m_stream->capturesSteps() || !m_padded.fill(batch, m_maxLogitRows, ropeVariants())) {
        m_model->forward(batch, *m_kv, m_logits.rows(static_cast<std::int64_t>(batch.logitRows.size())), *m_stream);
        return;
    }
    const kernels::TensorView logits = m_logits.rows(m_padded.shape().rows);
    m_stream->runStep(m_padded.shape(), m_padded.inputs(),
                      [&] { m_model->forward(m_padded.forward(), *m_kv, logits, *m_stream); });
}

template<typename After> void ModelRunner::compute(const Batch &batch, After after)
{
    CHECK(m_kv && !m_logits.empty());
    const kernels::TensorView logits = m_logits.rows(static_cast<std::int64_t>(batch.forward.logitRows.size()));
    chooseThreads();
    const std::int64_t lostBefore = lostCores();
    const auto start = std::chrono::steady_clock::now();
    if (m_profile)
        m_profile->setLayer(Profile::before);
    forward(batch.forward);
    after(logits);
    m_stream->synchronize();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (m_profile)
        m_profile->addStep(seconds);
    const auto tokens = static_cast<std::int64_t>(batch.forward.tokenIds.size());
    m_governor.note({(tokens << 32) + logits.shape[0], seconds, lostCores() != lostBefore});
}

kernels::TensorView ModelRunner::run(const Batch &batch)
{
    kernels::TensorView found;
    compute(batch, [&](const kernels::TensorView &logits) {
        found = logits;
        if (!m_hostLogits)
            return;
        m_ops->transfer(logits.data, m_hostLogits->data(), static_cast<std::size_t>(logits.elements()) * sizeof(float),
                        *m_stream);
        found.data = m_hostLogits->data();
    });
    return found;
}

void ModelRunner::sample(const kernels::TensorView &logits, const kernels::SamplingBatch &batch)
{
    const auto roomFor = [this](std::unique_ptr<kernels::Buffer> &buffer, std::size_t bytes) {
        if (!buffer || buffer->bytes() < bytes)
            buffer = m_ops->allocateStaging(bytes);
        return buffer->data();
    };
    const std::size_t rows = batch.rows.size();
    const auto alternatives = static_cast<std::size_t>(std::max(batch.alternatives, 0));
    auto *sampled = roomFor(m_hostSampled, std::max<std::size_t>(rows, 1) * sizeof(kernels::SampledRow));
    auto *best =
        roomFor(m_hostAlternatives, std::max<std::size_t>(rows * alternatives, 1) * sizeof(kernels::Alternative));
    m_ops->sample(logits, batch, reinterpret_cast<kernels::SampledRow *>(sampled),
                  reinterpret_cast<kernels::Alternative *>(best), *m_stream);
}

std::span<const float> ModelRunner::logitsOnHost(const kernels::TensorView &logits, int row)
{
    const auto count = static_cast<std::size_t>(logits.shape[1]);
    const std::size_t bytes = count * sizeof(float);
    std::byte *host = m_hostLogits->data() + static_cast<std::size_t>(row) * bytes;
    m_ops->transfer(logits.data + static_cast<std::size_t>(row) * bytes, host, bytes, *m_stream);
    m_stream->synchronize();
    return {reinterpret_cast<const float *>(host), count};
}

std::vector<Sampled> ModelRunner::runAndSample(const Batch &batch, const SamplingRequests &requests)
{
    CHECK(m_hostLogits);
    const kernels::SamplingBatch rows = requests.batch();
    kernels::TensorView found;
    compute(batch, [&](const kernels::TensorView &logits) {
        found = logits;
        if (!rows.rows.empty())
            sample(logits, rows);
    });
    std::vector<Sampled> sampled;
    const auto perRow = static_cast<std::size_t>(std::max(rows.alternatives, 0));
    for (std::size_t i = 0; i < rows.rows.size(); ++i) {
        const auto *row = reinterpret_cast<const kernels::SampledRow *>(m_hostSampled->data()) + i;
        const auto *best = reinterpret_cast<const kernels::Alternative *>(m_hostAlternatives->data()) + i * perRow;
        sampled.push_back(
            sampledOf(rows.rows[i], *row, {best, perRow}, [&] { return logitsOnHost(found, rows.rows[i].logitRow); }));
    }
    return sampled;
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
    resetGovernor();
}

void ModelRunner::resetGovernor()
{
    m_stepThreads = m_ops->usedThreads();
    m_governor.reset(m_stepThreads);
}

std::size_t ModelRunner::workspaceBytes() const
{
    return m_maxTokens == 0 ? 0 : m_model->workspaceBytes(m_maxTokens, m_maxLogitRows) + m_logits.bytes();
}

} // namespace engine
