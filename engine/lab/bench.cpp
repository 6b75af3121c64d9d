// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/lab/bench.h"

#include "engine/api/peak.h"
#include "engine/api/self_test.h"
#include "engine/lab/bench_operations.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace engine {
namespace {

Request makeRequest(int vocabSize, int promptTokens, int outputTokens, std::mt19937_64 &random)
{
    std::uniform_int_distribution<int> token(0, vocabSize - 1);
    Request request;
    request.ids.emplace();
    for (int i = 0; i < promptTokens; ++i)
        request.ids->push_back(token(random));
    request.sampling.temperature = 0;
    request.sampling.ignoreEos = true;
    request.sampling.maxTokens = outputTokens;
    return request;
}

void runAll(RequestRunner &runner, std::vector<Request> requests, std::stop_token stop, double *promptRate)
{
    std::string error;
    ErrorCode code = ErrorCode::Internal;
    runner.run(std::move(requests), stop, {}, [&](std::size_t, const RequestResult &result) {
        if (promptRate)
            *promptRate = result.finished.timings.promptTokensPerSecond;
        if (result.finished.reason == FinishReason::Failed) {
            error = result.finished.error;
            code = result.finished.code;
        } else if (result.finished.reason == FinishReason::ContextFull) {
            error = "bench: the test does not fit the context; a larger --max-model-len is wanted";
            code = ErrorCode::Refused;
        }
    });
    if (stop.stop_requested())
        throw Error(ErrorCode::Cancelled, "bench: stopped");
    if (!error.empty())
        throw Error(code, error);
}

double promptRate(RequestRunner &runner, int vocabSize, int tokens, std::mt19937_64 &random, std::stop_token stop)
{
    std::vector<Request> requests;
    requests.push_back(makeRequest(vocabSize, tokens, 1, random));
    double rate = 0;
    runAll(runner, std::move(requests), stop, &rate);
    return rate;
}

/// Tokens a second over the steps in which all sequences decode and nothing else happens.
double decodeRate(RequestRunner &runner, Engine &engine, int vocabSize, int batch, int depth, int tokens,
                  std::mt19937_64 &random, std::stop_token stop)
{
    std::vector<Request> requests;
    for (int i = 0; i < batch; ++i)
        requests.push_back(makeRequest(vocabSize, std::max(depth, 1), tokens + 1, random));
    static_cast<void>(engine.takeSteps());
    runAll(runner, std::move(requests), stop, nullptr);

    double begin = 0;
    double end = 0;
    long decoded = 0;
    for (const StepStats &step : engine.takeSteps()) {
        if (step.prefillTokens > 0 || step.decodeTokens != batch)
            continue;
        if (decoded == 0)
            begin = step.time - step.duration;
        end = step.time;
        decoded += step.decodeTokens;
    }
    if (decoded == 0 || end <= begin)
        throw Error(ErrorCode::Refused,
                    "bench: " + std::to_string(batch)
                        + " sequences never decoded together; found a KV pool or batch limit too small for them");
    return static_cast<double>(decoded) / (end - begin);
}

/// The roofline: what the threads read together, or what another device copies.
double bandwidthOf(const EngineConfig &effective)
{
    return effective.device == "cpu" ? measureReadBandwidth(effective.threads) : measureDeviceCopy(effective.device);
}

void addBandwidth(BenchRow &row, double roofline)
{
    row.bandwidthGbps = row.bytesPerToken * row.tokensPerSecond.median / 1e9;
    row.rooflineGbps = roofline / 1e9;
    row.rooflineFraction = roofline > 0 ? row.bandwidthGbps * 1e9 / roofline : 0;
}

/// What the matrix products of a model come to, and how fast the machine could be at them.
struct Arithmetic {
    std::optional<ModelOperations> operations;
    PeakRates peak;

    explicit Arithmetic(const ModelInfo &info)
    {
        if (info.backend != "cpu")
            return;
        operations = countOperations(inspectModel(info.path, true, true));
        peak = measurePeakRates(info.isa, info.effective.threads);
    }

    /// `headShare`: tokens whose logits are wanted, of all.
    void addTo(BenchRow &row, double headShare) const
    {
        if (!operations)
            return;
        TokenOperations token = operations->body;
        token += operations->head * headShare;
        row.gflops = token.all() * row.tokensPerSecond.median / 1e9;
        row.peakGflops = token.all() / (token.integer / peak.integer + token.floating / peak.floating) / 1e9;
        row.peakFraction = row.gflops / row.peakGflops;
    }
};

/// Of the KV cache, by one token behind `context` others: layers with a window read no more than that.
double kvBytesRead(const ModelInfo &info, double context)
{
    const auto windowed = static_cast<double>(info.kvWindowBytesPerToken);
    return (static_cast<double>(info.kvBytesPerToken) - windowed) * context
        + windowed * std::min(context, static_cast<double>(info.kvWindow));
}

} // namespace

Spread spreadOf(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    const std::size_t n = values.size();
    Spread spread;
    spread.minimum = values.front();
    spread.maximum = values.back();
    spread.median = n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
    spread.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(n);
    double squares = 0;
    for (const double value : values)
        squares += (value - spread.mean) * (value - spread.mean);
    spread.stdev = n > 1 ? std::sqrt(squares / static_cast<double>(n - 1)) : 0;
    return spread;
}

void runBench(RequestRunner &runner, Engine &engine, const ModelInfo &info, const BenchOptions &options,
              const std::function<void(const BenchRow &)> &onRow, std::stop_token stop)
{
    std::mt19937_64 random(options.seed);
    const double roofline = bandwidthOf(info.effective);
    const Arithmetic arithmetic(info);
    const auto repeat = [&options](const std::function<double()> &measure) {
        static_cast<void>(measure()); // the first pass touches weights, workspace and KV pages for the first time
        std::vector<double> rates;
        for (int i = 0; i < options.repetitions; ++i)
            rates.push_back(measure());
        return spreadOf(std::move(rates));
    };

    for (const int tokens : options.prompts) {
        if (tokens <= 0)
            continue;
        BenchRow row;
        row.test = "pp" + std::to_string(tokens);
        row.tokensPerSecond = repeat([&] { return promptRate(runner, info.vocabSize, tokens, random, stop); });
        row.bytesPerToken =
            static_cast<double>(info.bytesPerToken) / std::min(tokens, info.effective.limits.maxNumBatchedTokens);
        addBandwidth(row, roofline);
        arithmetic.addTo(row, 1.0 / tokens);
        onRow(row);
    }
    for (const int tokens : options.generates)
        for (const int depth : options.depths)
            for (const int batch : options.batches) {
                if (tokens <= 0 || batch <= 0)
                    continue;
                BenchRow row;
                row.test = "tg" + std::to_string(tokens);
                if (batch > 1)
                    row.test.append("@").append(std::to_string(batch));
                row.batch = batch;
                row.depth = depth;
                row.tokensPerSecond = repeat(
                    [&] { return decodeRate(runner, engine, info.vocabSize, batch, depth, tokens, random, stop); });
                row.bytesPerToken = static_cast<double>(info.bytesPerToken) / batch
                    + kvBytesRead(info, std::max(depth, 1) + tokens / 2.0);
                addBandwidth(row, roofline);
                arithmetic.addTo(row, 1.0);
                onRow(row);
            }
}

} // namespace engine
