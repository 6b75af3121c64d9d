// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/evaluate.h"

#include "engine/runtime/watched_evaluator.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace engine {
namespace {

/// Rows of logits kept at once when every position is wanted: enough for full speed, small beside the weights.
constexpr int mostLogitRows = 128;

/// One sequence at a time, in the first blocks of the pool.
class LoadedEvaluator final : public Evaluator {
public:
    LoadedEvaluator(const std::string &path, const EngineConfig &config, const std::stop_token &stop,
                    const LoadedModel::OpsWrapper &wrap = {})
        : m_model(path, evaluationConfig(config), {}, stop, wrap)
    {
        const EngineConfig &effective = m_model.info().effective;
        m_logitRows = std::min(effective.limits.maxNumBatchedTokens, mostLogitRows);
        m_model.runner().reserve(effective.limits.maxNumBatchedTokens, m_logitRows);
        m_workspaceBytes = m_model.runner().workspaceBytes();
        if (config.kv.numBlocks == 0 && config.kv.budgetBytes == 0) {
            KvPoolConfig kv = effective.kv;
            kv.numBlocks = (effective.maxModelLen + kv.blockTokens - 1) / kv.blockTokens;
            m_model.applyKvPool(kv);
        }
    }

    /// The report of `--profile` is due when the work is done.
    ~LoadedEvaluator() override
    {
        if (const Profile *profile = m_model.profile())
            (void)std::fputs(profile->report(m_model.info().layers).c_str(), stderr);
    }
    LoadedEvaluator(const LoadedEvaluator &) = delete;
    LoadedEvaluator &operator=(const LoadedEvaluator &) = delete;

    [[nodiscard]] const ModelInfo &info() const override { return m_model.info(); }
    [[nodiscard]] EngineTotals totals() const override;
    [[nodiscard]] int vocabSize() const override { return m_model.info().vocabSize; }
    [[nodiscard]] bool addsBos() const override { return m_model.tokenizer().addsBos(); }
    [[nodiscard]] int bosId() const override { return m_model.tokenizer().bos().value_or(-1); }
    [[nodiscard]] std::vector<int> encode(const std::string &text) const override
    {
        return m_model.tokenizer().encode(text, {});
    }
    void logits(std::span<const int> ids, bool allPositions, const std::function<void(std::span<const float>)> &row,
                std::stop_token stop) override;
    void compareKv(std::span<const int> ids, KvType against,
                   const std::function<void(std::span<const float>, std::span<const float>)> &row,
                   std::stop_token stop) override;

private:
    using Step = std::function<void(const Batch &)>;

    static EngineConfig evaluationConfig(EngineConfig config);
    void checkIds(std::span<const int> ids) const;
    [[nodiscard]] Batch makeBatch(std::span<const int> ids, int first, int count, bool allPositions);

    /// Runs the positions in steps of at most `most` and gives `step` each one's batch.
    void forEachStep(std::span<const int> ids, bool allPositions, int most, const std::stop_token &stop,
                     const Step &step);
    /// Row i of the logits of a step, checked. \throws Error Refused naming the position
    [[nodiscard]] std::span<const float> checkedRow(const kernels::TensorView &logits, const Batch &batch,
                                                    std::size_t i) const;

    LoadedModel m_model;
    std::unique_ptr<KvCache> m_otherKv; ///< of compareKv()
    KvType m_otherType = KvType::Auto;
    std::uint64_t m_steps = 0;
    std::size_t m_workspaceBytes = 0;
    int m_logitRows = 1; ///< positions of one step whose logits are wanted
};

EngineConfig LoadedEvaluator::evaluationConfig(EngineConfig config)
{
    config.limits.maxNumSeqs = 1; // what pools and windows are sized for
    return config;
}

EngineTotals LoadedEvaluator::totals() const
{
    const ModelInfo &model = m_model.info();
    EngineTotals totals;
    totals.steps = m_steps;
    totals.maxRunning = m_steps > 0 ? 1 : 0;
    totals.blocksTotal = model.effective.kv.numBlocks;
    totals.blocksFree = totals.blocksTotal; // a sequence holds its blocks for one call only
    totals.windowBlocksTotal = totals.windowBlocksFree = model.effective.kv.windowBlocks;
    totals.kvBytes = model.effective.kv.budgetBytes;
    totals.weightBytes = model.weightBytes;
    totals.workspaceBytes = m_workspaceBytes;
    return totals;
}

void LoadedEvaluator::checkIds(std::span<const int> ids) const
{
    const EngineConfig &effective = m_model.info().effective;
    if (ids.empty())
        throw Error(ErrorCode::Refused, "the list of token ids is empty; wanted at least one id");
    const auto bad = std::find_if(ids.begin(), ids.end(), [this](int id) { return id < 0 || id >= vocabSize(); });
    if (bad != ids.end())
        throw Error(ErrorCode::Refused,
                    "token id " + std::to_string(*bad) + " at position " + std::to_string(bad - ids.begin())
                        + " is outside the vocabulary of " + std::to_string(vocabSize()));
    const std::size_t room =
        static_cast<std::size_t>(effective.kv.numBlocks) * static_cast<std::size_t>(effective.kv.blockTokens);
    const std::size_t most = std::min(static_cast<std::size_t>(effective.maxModelLen), room);
    if (ids.size() > most)
        throw Error(ErrorCode::Refused,
                    std::to_string(ids.size()) + " tokens are more than the context holds; wanted at most "
                        + std::to_string(most));
}

Batch LoadedEvaluator::makeBatch(std::span<const int> ids, int first, int count, bool allPositions)
{
    const int blockTokens = m_model.info().effective.kv.blockTokens;
    const int windowBlocks = m_model.info().effective.kv.windowBlocks;
    Batch batch;
    ForwardBatch &forward = batch.forward;
    for (int position = first; position < first + count; ++position) {
        forward.tokenIds.push_back(ids[static_cast<std::size_t>(position)]);
        forward.positions.push_back(position);
        forward.slotIds.push_back(position); // block i holds the i-th part of the sequence
        if (windowBlocks > 0)                // the blocks of a window are taken round and round
            forward.windowSlotIds.push_back(position % (windowBlocks * blockTokens));
        if (allPositions || position + 1 == static_cast<int>(ids.size()))
            forward.logitRows.push_back(position - first);
    }
    forward.queryStarts = {0, count};
    forward.contextLengths = {first + count};
    forward.ropeVariants = {m_model.runner().ropeVariants().of(static_cast<int>(ids.size()))};
    forward.maxBlocks = (first + count + blockTokens - 1) / blockTokens;
    const int seen = std::max(0, first - m_model.info().kvWindow + 1) / blockTokens;
    for (int block = 0; block < forward.maxBlocks; ++block) {
        forward.blockTables.push_back(block);
        if (windowBlocks > 0)
            forward.windowTables.push_back(block < seen ? -1 : block % windowBlocks);
    }
    return batch;
}

void LoadedEvaluator::forEachStep(std::span<const int> ids, bool allPositions, int most, const std::stop_token &stop,
                                  const Step &step)
{
    checkIds(ids);
    const int total = static_cast<int>(ids.size());
    for (int first = 0; first < total; first += most) {
        if (stop.stop_requested())
            throw Error(ErrorCode::Cancelled, "evaluation was cancelled at token " + std::to_string(first));
        step(makeBatch(ids, first, std::min(most, total - first), allPositions));
        ++m_steps;
    }
}

std::span<const float> LoadedEvaluator::checkedRow(const kernels::TensorView &logits, const Batch &batch,
                                                   std::size_t i) const
{
    const std::span values(logits.as<const float>() + i * static_cast<std::size_t>(logits.strides[0]),
                           static_cast<std::size_t>(vocabSize()));
    if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }))
        throw Error(ErrorCode::Refused,
                    "model output is not a number: the logits of position "
                        + std::to_string(batch.forward.positions[static_cast<std::size_t>(batch.forward.logitRows[i])])
                        + " are not finite");
    return values;
}

void LoadedEvaluator::logits(std::span<const int> ids, bool allPositions,
                             const std::function<void(std::span<const float>)> &row, std::stop_token stop)
{
    const int most = allPositions ? m_logitRows : m_model.info().effective.limits.maxNumBatchedTokens;
    forEachStep(ids, allPositions, most, stop, [&](const Batch &batch) {
        const kernels::TensorView result = m_model.runner().run(batch);
        for (std::size_t i = 0; i < batch.forward.logitRows.size(); ++i)
            row(checkedRow(result, batch, i));
    });
}

void LoadedEvaluator::compareKv(std::span<const int> ids, KvType against,
                                const std::function<void(std::span<const float>, std::span<const float>)> &row,
                                std::stop_token stop)
{
    ModelRunner &runner = m_model.runner();
    if (!m_otherKv || m_otherType != against)
        m_otherKv = runner.makeKv({kvDType(against), kvDType(against)});
    m_otherType = against;
    std::vector<float> reference;
    forEachStep(ids, true, m_logitRows, stop, [&](const Batch &batch) {
        const std::size_t rows = batch.forward.logitRows.size();
        reference.clear();
        runner.exchangeKv(m_otherKv);
        const kernels::TensorView others = runner.run(batch);
        runner.exchangeKv(m_otherKv);
        for (std::size_t i = 0; i < rows; ++i) {
            const std::span<const float> values = checkedRow(others, batch, i);
            reference.insert(reference.end(), values.begin(), values.end());
        }
        const kernels::TensorView result = runner.run(batch);
        const auto width = static_cast<std::size_t>(vocabSize());
        for (std::size_t i = 0; i < rows; ++i)
            row(checkedRow(result, batch, i), {reference.data() + i * width, width});
    });
}

double logSumOfExponentials(std::span<const float> logits)
{
    const double most = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const float value : logits)
        sum += std::exp(value - most);
    return most + std::log(sum);
}

double logProbability(std::span<const float> logits, int id)
{
    return logits[static_cast<std::size_t>(id)] - logSumOfExponentials(logits);
}

double divergence(std::span<const float> logits, std::span<const float> reference)
{
    const double sum = logSumOfExponentials(logits);
    const double referenceSum = logSumOfExponentials(reference);
    double total = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        const double logprob = reference[i] - referenceSum;
        total += std::exp(logprob) * (logprob - (logits[i] - sum));
    }
    return std::max(0.0, total); // rounding may leave less than nothing of equal ones
}

/// Collects the divergences of positions.
class KlMeter {
public:
    void add(std::span<const float> logits, std::span<const float> reference)
    {
        m_values.push_back(divergence(logits, reference));
        const auto top = [](std::span<const float> row) {
            return std::max_element(row.begin(), row.end()) - row.begin();
        };
        m_same += top(logits) == top(reference) ? 1 : 0;
    }

    [[nodiscard]] KlResult result()
    {
        std::sort(m_values.begin(), m_values.end());
        const auto n = static_cast<double>(m_values.size());
        const auto at = [&](double share) { return m_values[static_cast<std::size_t>(share * (n - 1) + 0.5)]; };
        KlResult kl;
        kl.mean = std::accumulate(m_values.begin(), m_values.end(), 0.0) / n;
        kl.median = at(0.5);
        kl.p99 = at(0.99);
        kl.max = m_values.back();
        kl.sameTop = static_cast<double>(m_same) / n;
        return kl;
    }

private:
    std::vector<double> m_values;
    std::size_t m_same = 0;
};

/// Mean and the standard error of exp(mean), by the first-order rule.
void summarise(double sum, double squares, PerplexityResult &result)
{
    const auto n = static_cast<double>(result.tokens);
    result.nll = sum / n;
    result.perplexity = std::exp(result.nll);
    const double variance = n > 1 ? std::max(0.0, squares / n - result.nll * result.nll) / (n - 1) : 0.0;
    result.standardError = result.perplexity * std::sqrt(variance);
}

} // namespace

std::unique_ptr<Evaluator> openEvaluator(const std::string &path, const EngineConfig &config, std::stop_token stop)
{
    return std::make_unique<LoadedEvaluator>(path, config, stop);
}

std::unique_ptr<Evaluator> openWatchedEvaluator(const std::string &path, const EngineConfig &config,
                                                std::stop_token stop, const LoadedModel::OpsWrapper &wrap)
{
    return std::make_unique<LoadedEvaluator>(path, config, stop, wrap);
}

void Evaluator::compareKv(std::span<const int>, KvType,
                          const std::function<void(std::span<const float>, std::span<const float>)> &, std::stop_token)
{
    throw Error(ErrorCode::InvalidArgument, "this evaluator keeps no keys and values; wanted one that does");
}

PerplexityResult perplexity(Evaluator &evaluator, const std::string &text, const PerplexityOptions &options,
                            std::stop_token stop)
{
    if (options.context < 2)
        throw Error(ErrorCode::InvalidArgument,
                    "context is " + std::to_string(options.context) + "; wanted at least 2 tokens");
    const std::vector<int> ids = evaluator.encode(text);
    const auto context = static_cast<std::size_t>(options.context);
    const std::size_t chunks = ids.size() / context;
    if (chunks == 0)
        throw Error(ErrorCode::Refused,
                    "the text has " + std::to_string(ids.size()) + " tokens; wanted at least one chunk of "
                        + std::to_string(context));
    PerplexityResult result;
    const bool compares = options.klAgainst != KvType::Auto;
    KlMeter meter;
    double sum = 0;
    double squares = 0;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
        const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(chunk * context);
        std::vector<int> part(begin, begin + static_cast<std::ptrdiff_t>(context));
        if (evaluator.addsBos() && evaluator.bosId() >= 0)
            part.front() = evaluator.bosId();
        std::size_t next = 1;
        const auto addRow = [&](std::span<const float> row) {
            if (next == part.size())
                return false;
            const double logprob = logProbability(row, part[next++]);
            result.logprobs.push_back(static_cast<float>(logprob));
            sum -= logprob;
            squares += logprob * logprob;
            return true;
        };
        const auto addPair = [&](std::span<const float> row, std::span<const float> reference) {
            if (addRow(row))
                meter.add(row, reference);
        };
        if (compares)
            evaluator.compareKv(part, options.klAgainst, addPair, stop);
        else
            evaluator.logits(part, true, addRow, stop);
        if (options.progress)
            options.progress(static_cast<int>(chunk + 1), static_cast<int>(chunks));
    }
    result.tokens = result.logprobs.size();
    summarise(sum, squares, result);
    if (compares)
        result.kl = meter.result();
    return result;
}

} // namespace engine
