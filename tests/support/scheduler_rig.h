// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/runtime/sampler.h"
#include "engine/runtime/scheduler.h"
#include "engine/runtime/step_stats.h"
#include "tests/support/fake_model.h"

#include <QtGlobal>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// A scheduler driven step by step on the fake model.
namespace scheduler_rig {

using namespace engine;

constexpr int vocab = 61;

inline Scheduler::Config config(int blocks, int blockTokens, BatchLimits limits = {}, int maxModelLen = 100000)
{
    Scheduler::Config config;
    config.limits = limits;
    config.maxModelLen = maxModelLen;
    config.kv.numBlocks = blocks;
    config.kv.blockTokens = blockTokens;
    return config;
}

/// Layers that hold a window, with the room that the rules give them.
inline Scheduler::Config withWindow(Scheduler::Config config, int window)
{
    config.window = window;
    config.kv.windowBlocks = windowBlocksFor({config.kv.numBlocks, config.kv.blockTokens, window},
                                             config.limits.maxNumSeqs, config.limits.maxNumBatchedTokens);
    return config;
}

inline std::vector<int> promptOf(int length, int salt)
{
    std::vector<int> prompt(static_cast<std::size_t>(length));
    for (int i = 0; i < length; ++i)
        prompt[static_cast<std::size_t>(i)] = (i * 7 + salt * 13 + i * salt) % vocab;
    return prompt;
}

/// A scheduler on the fake model, with what its requests got so far.
struct Rig {
    struct Job {
        std::vector<int> prompt;
        SamplingParams sampling;
        std::uint64_t seed = 0;
        std::vector<int> output;
        std::optional<FinishReason> ended;
        std::string error;
        int cachedTokens = 0;
        int admittedAtStep = -1;
        int contextLimit = 0; ///< when it was added
        Timings timings{};    ///< once it has ended
        RequestStory story{};
    };

    explicit Rig(const Scheduler::Config &c)
        : scheduler(c)
        , model(vocab)
        , maxModelLen(c.maxModelLen)
    {
        model.resizeKv(scheduler.blocks().sizes());
        model.reserve(1 << 20, 1 << 12);
    }

    RequestId add(std::vector<int> prompt, int maxTokens, int priority = 0, SamplingParams sampling = greedy(),
                  std::uint64_t seed = 0)
    {
        return add(std::move(prompt), maxTokens, priority, std::move(sampling), seed, 0);
    }

    /// With a `leader`, one that shares its prompt.
    RequestId add(std::vector<int> prompt, int maxTokens, int priority, SamplingParams sampling, std::uint64_t seed,
                  RequestId leader)
    {
        const RequestId id = nextId++;
        Sequence sequence;
        sequence.id = id;
        sequence.arrivedAt = now;
        sequence.tokens = prompt;
        sequence.promptTokens = static_cast<int>(prompt.size());
        sequence.maxTokens = maxTokens;
        sequence.priority = priority;
        sampling.maxTokens = maxTokens;
        const int pool = scheduler.blocks().blocks() * scheduler.blocks().blockTokens();
        jobs[id] = {std::move(prompt), sampling, seed, {}, {}, {}, 0, -1, std::min(maxModelLen, pool)};
        if (leader != 0)
            scheduler.addFork(std::move(sequence), leader);
        else
            scheduler.add(std::move(sequence));
        return id;
    }

    /// A pool of other sizes, between two steps.
    void repage(int blocks, int blockTokens, bool prefixCaching = true)
    {
        KvPoolConfig kv;
        kv.numBlocks = blocks;
        kv.blockTokens = blockTokens;
        kv.prefixCaching = prefixCaching;
        const KvSizes sizes{blocks, blockTokens, scheduler.blocks().sizes().window};
        kv.windowBlocks = windowBlocksFor(sizes, scheduler.limits().maxNumSeqs, scheduler.limits().maxNumBatchedTokens);
        PoolChange change = scheduler.planPool(kv);
        model.repageKv(change.blocks.sizes(), change.moves);
        scheduler.setPool(std::move(change));
    }

    static SamplingParams greedy()
    {
        SamplingParams params;
        params.temperature = 0;
        return params;
    }

    void take(const FinishedSequence &finished)
    {
        Job &job = jobs.at(finished.sequence.id);
        if (job.ended)
            qFatal("a request ended twice");
        job.ended = finished.reason;
        job.error = finished.error;
        job.cachedTokens = finished.sequence.cachedTokens;
        job.timings = timingsOf(finished.sequence, now);
        job.story = finished.sequence.story;
    }

    void cancel(RequestId id)
    {
        if (auto finished = scheduler.finish(id, FinishReason::Cancelled))
            take(*finished);
    }

    RowResult sampled(RequestId id, std::span<const float> logits)
    {
        const Job &job = jobs.at(id);
        std::vector<int> history = job.prompt;
        history.insert(history.end(), job.output.begin(), job.output.end());
        const Sampled drawn = sampler.sample(logits, job.sampling, history, job.seed);
        return {drawn.token, drawn.token == endToken, drawn.error, {}};
    }

    /// One step; false when there was nothing to do.
    bool step(int tokenCap = 0)
    {
        batch = scheduler.schedule(now, tokenCap);
        if (batch.empty())
            return false;
        for (const BlockCopy &copy : batch.copies)
            model.copyBlock(copy);
        copies += static_cast<int>(batch.copies.size());
        const kernels::TensorView logits = model.run(batch);
        std::vector<RowResult> results(batch.forward.logitRows.size());
        for (const BatchRow &row : batch.rows) {
            if (jobs.at(row.request).admittedAtStep < 0)
                jobs.at(row.request).admittedAtStep = steps;
            if (!row.samples)
                continue;
            const std::span<const float> values(logits.as<float>() + static_cast<std::ptrdiff_t>(row.logitRow) * vocab,
                                                vocab);
            RowResult &own = results[static_cast<std::size_t>(row.logitRow)];
            own = sampled(row.request, values);
            for (const Sequence *fork : scheduler.forksOf(row.sequence))
                own.forks.push_back(sampled(fork->id, values));
        }
        now += 0.01;
        ++steps;
        const std::int64_t empty = recountEmptySlots();
        result = scheduler.commit(batch, results, now);
        if (result.stats.kvSlotsEmpty != empty)
            qFatal("%lld empty slots are told, %lld counted", static_cast<long long>(result.stats.kvSlotsEmpty),
                   static_cast<long long>(empty));
        for (const CommitResult::Output &output : result.outputs)
            jobs.at(output.id).output.push_back(output.token);
        for (const FinishedSequence &finished : result.finished)
            take(finished);
        return true;
    }

    /// Of the blocks that sequences hold, once `batch` is written; block by block.
    [[nodiscard]] std::int64_t recountEmptySlots() const
    {
        const int size = scheduler.blocks().blockTokens();
        std::map<int, int> filled;
        for (const Sequence *sequence : scheduler.sequences()) {
            int tokens = sequence->computed;
            for (const BatchRow &row : batch.rows)
                tokens += row.sequence == sequence->handle ? row.tokens : 0;
            for (std::size_t i = 0; i < sequence->table.blocks.size(); ++i) {
                int &most = filled[sequence->table.blocks[i]];
                most = std::max(most, std::clamp(tokens - static_cast<int>(i) * size, 0, size));
            }
        }
        std::int64_t empty = 0;
        for (const auto &[block, tokens] : filled)
            empty += size - tokens;
        return empty;
    }

    void runAll(int maxSteps = 100000)
    {
        while (!scheduler.idle()) {
            if (!step() || --maxSteps < 0)
                qFatal("the schedule does not end");
        }
    }

    [[nodiscard]] std::vector<int> expected(const Job &job, int contextLimit) const
    {
        return model.alone(job.prompt, job.sampling, job.seed, job.sampling.maxTokens, contextLimit, endToken);
    }

    Scheduler scheduler;
    FakeModel model;
    Sampler sampler;
    std::map<RequestId, Job> jobs;
    Batch batch;
    CommitResult result;
    RequestId nextId = 1;
    double now = 0;
    int maxModelLen = 0;
    int steps = 0;
    int copies = 0; ///< of blocks that were shared when somebody wrote into them
    int endToken = -1;
};

inline int totalTokens(const Batch &batch)
{
    return static_cast<int>(batch.forward.tokenIds.size());
}

} // namespace scheduler_rig
