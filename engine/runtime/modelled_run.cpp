// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/error.h"
#include "engine/api/modelled.h"
#include "engine/runtime/scheduler.h"
#include "engine/runtime/step_stats.h"

#include <algorithm>
#include <map>
#include <queue>
#include <utility>

namespace engine {
namespace {

constexpr int vocab = 1 << 20; // ids stand for tokens that are never equal by chance

/// A token that depends on its place and on `stream` alone.
int tokenOf(std::uint64_t stream, int position)
{
    std::uint64_t x = stream * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(position) * 0xBF58476D1CE4E5B9ULL;
    x ^= x >> 29U;
    x *= 0x94D049BB133111EBULL;
    x ^= x >> 32U;
    return static_cast<int>(x % vocab);
}

Scheduler::Config schedulerConfig(const ModelledSetup &setup)
{
    Scheduler::Config config;
    config.limits = setup.config.limits;
    config.rules = setup.config;
    config.maxModelLen = setup.maxModelLen;
    config.kv = setup.config.kv;
    config.baselines = setup.config.baselines;
    return config;
}

/// What of `batch` costs time. A sequence's keys are read once for all its queries of the step, as tiled kernels do.
StepWork workOf(const Batch &batch)
{
    StepWork work;
    work.tokens = static_cast<int>(batch.forward.tokenIds.size());
    work.logitRows = static_cast<int>(batch.forward.logitRows.size());
    for (std::size_t i = 0; i < batch.rows.size(); ++i) {
        const double context = batch.forward.contextLengths[i];
        const double queries = batch.rows[i].tokens;
        work.cacheTokens += context;
        work.scorePairs += queries * (context - (queries - 1) / 2);
    }
    return work;
}

class ModelledLoop {
public:
    ModelledLoop(const ModelledSetup &setup, const std::function<double(const StepWork &)> &cost,
                 const std::function<void(const StepStats &)> &onStep, const ModelledFollowUp &followUp)
        : m_scheduler(schedulerConfig(setup))
        , m_cost(cost)
        , m_onStep(onStep)
        , m_followUp(followUp)
        , m_answersWait(setup.config.baselines.staticBatches)
    {
    }

    std::vector<ModelledOutcome> run(std::span<const ModelledRequest> requests)
    {
        for (const ModelledRequest &request : requests)
            arrive(request);
        while (!m_scheduler.idle() || !m_arrivals.empty()) {
            if (m_scheduler.idle())
                m_now = std::max(m_now, m_arrivals.top().request.arrival);
            takeArrivals();
            if (!m_scheduler.idle())
                step();
        }
        return std::move(m_outcomes);
    }

private:
    struct Arrival {
        ModelledRequest request;
        std::uint64_t order = 0;
        bool operator<(const Arrival &other) const // the earliest on top
        {
            return request.arrival != other.request.arrival ? request.arrival > other.request.arrival
                                                            : order > other.order;
        }
    };

    void arrive(const ModelledRequest &request) { m_arrivals.push({request, m_nextOrder++}); }

    void takeArrivals()
    {
        while (!m_arrivals.empty() && m_arrivals.top().request.arrival <= m_now) {
            const ModelledRequest request = m_arrivals.top().request;
            m_arrivals.pop();
            submit(request);
        }
    }

    void submit(const ModelledRequest &request)
    {
        const RequestId id = m_nextId++;
        m_open[id] = request;
        if (const std::string why = m_scheduler.refuse(request.promptTokens, request.outputTokens); !why.empty())
            return endUnserved(id, ErrorCode::Refused, why);
        if (const std::string why = queueFault(request); !why.empty())
            return endUnserved(id, ErrorCode::Busy, why);
        Sequence sequence;
        sequence.id = id;
        sequence.promptTokens = request.promptTokens;
        sequence.maxTokens = request.outputTokens;
        sequence.arrivedAt = request.arrival;
        for (int i = 0; i < request.promptTokens; ++i) {
            const bool shared = i < request.sharedTokens;
            const std::uint64_t stream = shared ? static_cast<std::uint64_t>(request.sharedGroup) : (id << 20U);
            sequence.tokens.push_back(tokenOf(stream, i));
        }
        m_scheduler.add(std::move(sequence));
    }

    /// The rule of the engine: what would wait with this request may not exceed the caps.
    [[nodiscard]] std::string queueFault(const ModelledRequest &request) const
    {
        const AdmissionRules &rules = m_scheduler.rules();
        const Scheduler::QueueLoad queued = m_scheduler.queued(request.promptTokens);
        if (rules.maxNumQueuedReqs > 0 && queued.requests > rules.maxNumQueuedReqs)
            return "the queue is full: " + std::to_string(queued.requests - 1) + " requests wait";
        if (rules.maxNumQueuedTokens > 0 && queued.tokens > rules.maxNumQueuedTokens)
            return "the queue is full: " + std::to_string(queued.tokens) + " prompt tokens would wait";
        return {};
    }

    void endUnserved(RequestId id, ErrorCode code, const std::string &error)
    {
        RequestFinished finished;
        finished.id = id;
        finished.reason = FinishReason::Failed;
        finished.code = code;
        finished.error = error;
        finish(std::move(finished), m_now);
    }

    void finish(RequestFinished finished, double at)
    {
        ModelledOutcome outcome{m_open.at(finished.id), std::move(finished), at};
        m_open.erase(outcome.finished.id);
        if (m_followUp)
            if (auto next = m_followUp(outcome)) {
                next->arrival = std::max(next->arrival, at);
                arrive(*next);
            }
        m_outcomes.push_back(std::move(outcome));
    }

    void step()
    {
        const Batch batch = m_scheduler.schedule(m_now);
        CHECK(!batch.empty());
        const double seconds = m_cost(workOf(batch));
        m_now += seconds;
        std::vector<RowResult> results(batch.forward.logitRows.size());
        for (const BatchRow &row : batch.rows)
            if (row.samples)
                results[static_cast<std::size_t>(row.logitRow)].token =
                    tokenOf(row.request << 20U, m_scheduler.find(row.request)->size());
        CommitResult result = m_scheduler.commit(batch, results, m_now);
        result.stats.duration = seconds;
        if (m_onStep)
            m_onStep(result.stats);
        for (const FinishedSequence &ended : result.finished)
            hand(ended);
        if (m_scheduler.running() == 0)
            for (RequestFinished &finished : std::exchange(m_held, {})) {
                finished.timings.e2eMs = (m_now - m_open.at(finished.id).arrival) * 1000.0;
                finish(std::move(finished), m_now);
            }
    }

    /// Static batches give answers back when the whole batch has ended (Yu et al. 2022, "Orca", section 3, C1).
    void hand(const FinishedSequence &ended)
    {
        RequestFinished finished;
        finished.id = ended.sequence.id;
        finished.reason = ended.reason;
        finished.usage = usageOf(ended.sequence);
        finished.timings = timingsOf(ended.sequence, m_now);
        finished.error = ended.error;
        if (m_answersWait)
            m_held.push_back(std::move(finished));
        else
            finish(std::move(finished), m_now);
    }

    Scheduler m_scheduler;
    const std::function<double(const StepWork &)> &m_cost;
    const std::function<void(const StepStats &)> &m_onStep;
    const ModelledFollowUp &m_followUp;
    std::priority_queue<Arrival> m_arrivals;
    std::map<RequestId, ModelledRequest> m_open;
    std::vector<RequestFinished> m_held; // ended, but not given back yet
    bool m_answersWait;
    std::vector<ModelledOutcome> m_outcomes;
    double m_now = 0;
    RequestId m_nextId = 1;
    std::uint64_t m_nextOrder = 0;
};

} // namespace

std::vector<ModelledOutcome> runModelled(const ModelledSetup &setup, std::span<const ModelledRequest> requests,
                                         const std::function<double(const StepWork &)> &cost,
                                         const std::function<void(const StepStats &)> &onStep,
                                         const ModelledFollowUp &followUp)
{
    return ModelledLoop(setup, cost, onStep, followUp).run(requests);
}

} // namespace engine
