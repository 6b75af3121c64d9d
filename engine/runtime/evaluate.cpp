// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/evaluate.h"

#include "engine/runtime/watched_evaluator.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

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

private:
    static EngineConfig evaluationConfig(EngineConfig config);
    void checkIds(std::span<const int> ids) const;
    [[nodiscard]] Batch makeBatch(std::span<const int> ids, int first, int count, bool allPositions);

    LoadedModel m_model;
    std::uint64_t m_steps = 0;
};

EngineConfig LoadedEvaluator::evaluationConfig(EngineConfig config)
{
    config.limits.maxNumSeqs = std::clamp(config.limits.maxNumBatchedTokens, 1, mostLogitRows);
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
    totals.kvBytes = model.effective.kv.budgetBytes;
    totals.weightBytes = model.weightBytes;
    totals.workspaceBytes = model.workspaceBytes;
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
    Batch batch;
    ForwardBatch &forward = batch.forward;
    for (int position = first; position < first + count; ++position) {
        forward.tokenIds.push_back(ids[static_cast<std::size_t>(position)]);
        forward.positions.push_back(position);
        forward.slotIds.push_back(position); // block i holds the i-th part of the sequence
        if (allPositions || position + 1 == static_cast<int>(ids.size()))
            forward.logitRows.push_back(position - first);
    }
    forward.queryStarts = {0, count};
    forward.contextLengths = {first + count};
    forward.ropeVariants = {m_model.runner().ropeVariants().of(static_cast<int>(ids.size()))};
    forward.maxBlocks = (first + count + blockTokens - 1) / blockTokens;
    for (int block = 0; block < forward.maxBlocks; ++block)
        forward.blockTables.push_back(block);
    return batch;
}

void LoadedEvaluator::logits(std::span<const int> ids, bool allPositions,
                             const std::function<void(std::span<const float>)> &row, std::stop_token stop)
{
    checkIds(ids);
    const BatchLimits &limits = m_model.info().effective.limits;
    const int most = allPositions ? limits.maxNumSeqs : limits.maxNumBatchedTokens;
    const int total = static_cast<int>(ids.size());
    for (int first = 0; first < total; first += most) {
        if (stop.stop_requested())
            throw Error(ErrorCode::Cancelled, "evaluation was cancelled at token " + std::to_string(first));
        const Batch batch = makeBatch(ids, first, std::min(most, total - first), allPositions);
        const kernels::TensorView result = m_model.runner().run(batch);
        ++m_steps;
        for (std::size_t i = 0; i < batch.forward.logitRows.size(); ++i) {
            const std::span values(result.as<const float>() + i * static_cast<std::size_t>(result.strides[0]),
                                   static_cast<std::size_t>(vocabSize()));
            if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }))
                throw Error(ErrorCode::Refused,
                            "model output is not a number: the logits of position "
                                + std::to_string(first + batch.forward.logitRows[i]) + " are not finite");
            row(values);
        }
    }
}

double logProbability(std::span<const float> logits, int id)
{
    const double most = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const float value : logits)
        sum += std::exp(value - most);
    return logits[static_cast<std::size_t>(id)] - most - std::log(sum);
}

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
    double sum = 0;
    double squares = 0;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
        const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(chunk * context);
        std::vector<int> part(begin, begin + static_cast<std::ptrdiff_t>(context));
        if (evaluator.addsBos() && evaluator.bosId() >= 0)
            part.front() = evaluator.bosId();
        std::size_t next = 1;
        evaluator.logits(
            part, true,
            [&](std::span<const float> row) {
                if (next == part.size())
                    return;
                const double logprob = logProbability(row, part[next++]);
                result.logprobs.push_back(static_cast<float>(logprob));
                sum -= logprob;
                squares += logprob * logprob;
            },
            stop);
        if (options.progress)
            options.progress(static_cast<int>(chunk + 1), static_cast<int>(chunks));
    }
    result.tokens = result.logprobs.size();
    summarise(sum, squares, result);
    return result;
}

} // namespace engine
