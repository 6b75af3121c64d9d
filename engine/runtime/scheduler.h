// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/config.h"
#include "engine/api/stats.h"
#include "engine/cache/block_manager.h"
#include "engine/runtime/batch.h"
#include "engine/runtime/sequence.h"

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace engine {

/// What was sampled for one row of a batch that samples.
struct RowResult {
    int token = 0;
    bool end = false;             ///< an end-of-generation token that ends this request
    std::string error;            ///< not empty: the row has no usable logits, its request fails
    std::vector<RowResult> forks; ///< sampled from the same logits for forksOf() the row's sequence, in that order
};

/// A pool of other sizes with everything that runs laid into it; made by planPool(), put into force by setPool().
struct PoolChange {
    BlockManager blocks;
    std::vector<std::optional<BlockTable>> tables; ///< of the running sequences, in order; without one it is preempted
    std::vector<SlotMove> moves;                   ///< of computed tokens, cached ones too
};

/// A request that left the scheduler.
struct FinishedSequence {
    Sequence sequence; ///< its blocks are released already
    FinishReason reason = FinishReason::Stop;
    std::string error; ///< with reason Failed
};

/// What a step changed, in the order of the batch's rows.
struct CommitResult {
    struct Output {
        RequestId id = 0;
        int token = 0;
        int cachedTokens = 0;
        std::size_t logitRow = 0;
    };
    std::vector<Output> outputs;
    std::vector<FinishedSequence> finished;
    StepStats stats; ///< all but what the whole engine alone knows: `duration`
};

/// Sole writer of Sequences: who runs in the next step, with how many tokens, on which blocks.
///
/// Rules. Decodes first; prompts fill what is left of maxNumBatchedTokens; while others wait one prompt gets at most
/// a quarter of the step. A request is admitted when blocks for all its tokens are free, and, while others run,
/// a reserve of a fifth of the pool beyond them; they are taken at once. Preempted requests resume before new ones,
/// and a step that preempts admits nobody. A request whose turn has come but which does not fit may be passed
/// by smaller ones a limited number of times.
///
/// Thread: the engine thread only.
class Scheduler {
public:
    struct Config {
        BatchLimits limits;
        AdmissionRules rules;
        int maxModelLen = 0; ///< prompt + output of one request
        KvPoolConfig kv;     ///< numBlocks, windowBlocks and blockTokens in force
        int window = 0;      ///< tokens that layers with a window keep; 0 = all keep the context
        RopeVariants variants;
        ServingBaselines baselines;
    };

    explicit Scheduler(const Config &config);

    /// Why such a request can never run here, with both numbers; empty when it can.
    [[nodiscard]] std::string refuse(int promptTokens, int maxTokens) const;
    /// Takes a request that refuse() lets pass. `arrivedAt` and the request's own fields are set by the caller.
    void add(Sequence sequence);
    /// Takes one that has the prompt of another, which computes it for both; they part when it samples.
    /// \pre `leader` was taken and has no output yet
    void addFork(Sequence sequence, RequestId leader);
    /// Those whose first token is sampled from this sequence's next logits.
    [[nodiscard]] std::vector<const Sequence *> forksOf(int handle) const;
    /// Ends a request in any phase; one that computes a prompt for others leaves that to the next. Empty when there is
    /// none of that id.
    std::optional<FinishedSequence> finish(RequestId id, FinishReason reason, std::string error = {});
    [[nodiscard]] const Sequence *find(RequestId id) const;
    void setMaxTokens(RequestId id, int maxTokens);
    /// Acts at the next schedule(). When fewer may run than do, the youngest pause with their blocks.
    void setLimits(const BatchLimits &limits) { m_limits = clampLimits(limits); }
    [[nodiscard]] const BatchLimits &limits() const { return m_limits; }
    /// Whether the limits are lower than asked for because of heat; for the stories of requests.
    void setHot(bool hot) { m_hot = hot; }
    /// Acts at the next schedule(); what waits is put in the new order.
    void setRules(const AdmissionRules &rules);
    /// While held, nobody is let in beside what runs.
    void holdAdmissions(bool held) { m_held = held; }
    [[nodiscard]] const AdmissionRules &rules() const { return m_rules; }
    /// Lays everything that runs, and as much of what is cached as there is room for, into a pool of other sizes.
    /// \pre kv holds promisedTokens()
    [[nodiscard]] PoolChange planPool(const KvPoolConfig &kv) const;
    /// Puts a planned pool into force; what found no room in it is preempted. \pre nothing changed since planPool()
    void setPool(PoolChange change);
    /// All that runs gives its blocks back and waits, and nothing stays cached: what the pool held is lost.
    void restartAll();
    /// Drops everything that is cached, and any block that was lost. \pre idle()
    void resetPool();
    /// What the largest request has a right to: a pool must hold that many tokens.
    [[nodiscard]] std::int64_t promisedTokens() const;
    /// At least one sequence, and at least one token for each.
    [[nodiscard]] static BatchLimits clampLimits(BatchLimits limits);

    /// The next step; empty when nothing can be done. `tokenCap` lowers the prompt tokens of this step alone. Valid
    /// until the next call: steps reuse its memory.
    [[nodiscard]] const Batch &schedule(double now, int tokenCap = 0);
    /// Takes the results of the batch that schedule() returned last; `results` in the order of its logit rows. Valid
    /// until the next call, and the caller's until then.
    [[nodiscard]] CommitResult &commit(const Batch &batch, std::span<const RowResult> results, double now);
    /// One row of a batch that was not committed, as a step of its own.
    [[nodiscard]] Batch alone(const BatchRow &row) const;
    /// The batch could not be computed: its requests fail, all others stay as they are.
    [[nodiscard]] std::vector<FinishedSequence> abandon(const Batch &batch, const std::string &error);

    [[nodiscard]] bool idle() const { return m_running.empty() && m_waiting.empty(); } // forks follow one
    [[nodiscard]] int running() const;                                                 ///< at most maxNumSeqs
    [[nodiscard]] int waiting() const
    {
        return static_cast<int>(m_waiting.size() + m_forks.size() + m_running.size()) - running();
    }
    /// What waits although there may be places: the front of the queue that fits now is not counted.
    struct QueueLoad {
        int requests = 0;
        std::int64_t tokens = 0;
    };
    /// With one more request of `newTokens` tokens behind all others, when that is not 0.
    [[nodiscard]] QueueLoad queued(int newTokens = 0) const;
    [[nodiscard]] std::int64_t waitingTokens() const;
    [[nodiscard]] std::uint64_t preemptions() const { return m_preemptions; }
    [[nodiscard]] std::uint64_t prefixQueryTokens() const { return m_prefixQueryTokens; }
    [[nodiscard]] std::uint64_t prefixHitTokens() const { return m_prefixHitTokens; }
    [[nodiscard]] std::uint64_t steps() const { return m_steps; }
    [[nodiscard]] int maxRunning() const { return m_maxRunning; }
    [[nodiscard]] const BlockManager &blocks() const { return m_blocks; }
    [[nodiscard]] std::vector<const Sequence *> sequences() const; ///< running first
    /// Empty when block bookkeeping and sequences agree.
    [[nodiscard]] std::string audit() const;
    /// The same when nothing runs: then nothing may be in use either. \pre idle()
    [[nodiscard]] std::string auditIdle() const;

    static constexpr int maxOvertaken = 64; ///< admissions that may pass a request by before its turn is kept for it
    static constexpr int shareDivisor = 4;  ///< of a step that one prompt gets while others wait
    static constexpr int maxPassed = 32;    ///< waiting requests that do not fit before the search ends

private:
    using Entry = std::unique_ptr<Sequence>;
    struct Part {
        Sequence *sequence = nullptr;
        int tokens = 0;
    };

    [[nodiscard]] static KvSizes sizesOf(const KvPoolConfig &kv, int window);
    void growForDecodes();
    void makeWindowRoom();
    [[nodiscard]] std::size_t seats() const;
    [[nodiscard]] std::size_t places() const ///< for running sequences
    {
        return m_held ? 1 : std::min(static_cast<std::size_t>(m_limits.maxNumSeqs), seats());
    }
    void holdWindows();
    [[nodiscard]] bool place(const Sequence &sequence, PoolChange &change, BlockTable &table) const;
    void placeWindow(const Sequence &sequence, int from, PoolChange &change, BlockTable &table) const;
    void placeCached(PoolChange &change) const;
    void placeKeptWindow(std::span<const int> oldBlocks, std::span<const int> blocks, int first,
                         PoolChange &change) const;
    [[nodiscard]] Sequence &victim() const;
    [[nodiscard]] bool betterVictim(std::size_t a, std::size_t b) const;
    void preempt(Sequence &sequence);
    void restart(Sequence &sequence);
    [[nodiscard]] Entry taken(Sequence sequence);
    void enqueue(Entry sequence);
    void admit(double now, int tokenCap);
    void countOvertaken(std::size_t index, const Sequence &admitted);
    [[nodiscard]] bool tryAdmit(Sequence &sequence, double now);
    // The stories of requests, in scheduler_story.cpp.
    void beginStory(Sequence &sequence) const;
    void noteWaits(double now);
    void noteWait(Sequence &sequence, Sequence::Wait wait, double now) const;
    void noteNoRoom(Sequence &sequence, int needed) const;
    void noteAdmission(Sequence &sequence, int cached) const;
    void noteShare(Sequence &sequence, const BatchRow &row) const;
    void noteToken(Sequence &sequence, double gapMs, double now) const;
    [[nodiscard]] int reserveBlocks() const;
    [[nodiscard]] bool comesBefore(const Sequence &a, const Sequence &b) const;
    [[nodiscard]] int promptBudget(int tokenCap) const;
    [[nodiscard]] int promptShare(int budget) const;
    void share(int tokenCap);
    void build(std::span<const Part> parts, Batch &batch) const;
    void appendRow(const Sequence &sequence, int count, Batch &batch) const;
    [[nodiscard]] std::optional<FinishReason> endOf(const Sequence &sequence, const RowResult &result) const;
    void advance(const BatchRow &row, std::span<const RowResult> results, CommitResult &out, double now);
    void append(Sequence &sequence, int token, StepStats &stats, double now) const;
    void reserveOutput(Sequence &sequence) const;
    void startForks(const Sequence &leader, const BatchRow &row, const RowResult &result, CommitResult &out,
                    double now);
    void failForks(int leader, const std::string &error, std::vector<FinishedSequence> &finished);
    [[nodiscard]] FinishedSequence leaveToFork(Sequence &leader, FinishReason reason, std::string error);
    FinishedSequence remove(std::vector<Entry> &from, std::size_t index, FinishReason reason, std::string error);
    void fillStats(const Batch &batch, StepStats &stats, double now);
    [[nodiscard]] std::int64_t emptySlots(const Batch &batch);
    [[nodiscard]] int contextLimit() const;
    [[nodiscard]] std::size_t active() const; ///< of m_running, those that may run

    BatchLimits m_limits;
    AdmissionRules m_rules;
    int m_maxModelLen;
    RopeVariants m_variants;
    ServingBaselines m_baselines;
    BlockManager m_blocks;
    std::vector<Entry> m_running; // in order of admission; those beyond maxNumSeqs pause
    std::vector<Entry> m_waiting; // in order of arrival; preempted ones among them
    std::vector<Entry> m_forks;   // without blocks until the one that computes their prompt samples
    bool m_held = false;
    int m_nextHandle = 0;
    std::uint64_t m_nextOrder = 1;
    std::uint64_t m_steps = 0;
    std::uint64_t m_preemptions = 0;
    std::uint64_t m_prefixQueryTokens = 0;
    std::uint64_t m_prefixHitTokens = 0;
    int m_maxRunning = 0;
    bool m_hot = false;
    struct { // the step in hand
        double began = 0;
        int rows = 0;
        int prefillTokens = 0;
    } m_step;
    Batch m_batch;                     // the step in hand
    CommitResult m_result;             // of the last commit
    std::vector<Part> m_parts;         // of the step in hand
    std::vector<Sequence *> m_decodes; // scratch, as the next
    std::vector<int> m_sharedBlocks;
    std::vector<RequestId> m_admitted;  // since the last commit
    std::vector<int> m_admittedCached;  // of those
    std::vector<RequestId> m_preempted; // since the last commit
};

} // namespace engine
