// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/local_engine_loop.h"

#include "engine/runtime/baselines/serving_baselines.h"
#include "engine/runtime/totals.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <unordered_set>
#include <utility>

namespace engine {

namespace {

void append(TokenEvent &event, OutputDelta &&more)
{
    event.text += more.content;
    event.reasoning += more.reasoning;
    std::ranges::move(more.toolCalls, std::back_inserter(event.toolCalls));
}

} // namespace

std::string PublishedState::blockText(int block) const
{
    const std::lock_guard lock(m_mutex);
    if (!m_blocks.map || block < 0 || block >= static_cast<int>(m_blocks.map->blocks.size()))
        return {};
    const int count = m_blocks.map->blocks[static_cast<std::size_t>(block)].tokens;
    const auto first = m_blocks.tokens.begin() + static_cast<std::ptrdiff_t>(block) * m_blocks.map->blockTokens;
    try {
        return m_tokenizer->decode({first, first + count}, false);
    } catch (const Error &) {
        return {}; // a network may know more ids than its tokenizer
    }
}

/// Prompt tokens that this step may take so that it ends in time; 0 = no limit.
int EngineLoop::tokenCap() const
{
    return baselines::takesWholePrompts(m_model->info().effective.baselines) ? 0 : m_pacer.promptTokens();
}

/// One step, if there is anything to do.
bool EngineLoop::step()
{
    if (!m_scheduler || !m_lost.empty())
        return false;
    const Batch &batch = m_scheduler->schedule(now(), tokenCap());
    if (batch.empty())
        return false;
    m_mapIsOld = true;
    m_shared.pulse.begin(m_scheduler->steps() + 1, now());
    const std::optional<StepFailure> copies = failureOf([&] {
        for (const BlockCopy &copy : batch.copies)
            m_model->executor().copyBlock(copy);
    });
    // What follows a failure may plan steps, or replace the scheduler: it has a batch of its own.
    if (copies)
        copyFailed(Batch(batch), *copies);
    else if (const std::optional<StepFailure> failure = runBatch(batch))
        retry(Batch(batch), *failure);
    m_copiesFailed = copies.has_value();
    if (std::string notice = m_model->executor().takeNotice(); !notice.empty())
        send(EngineNotice{EngineNotice::Kind::GraphsOff, m_scheduler->steps(), std::move(notice)});
    if (m_shared.pulse.end())
        send(EngineNotice{EngineNotice::Kind::StepResumed, m_scheduler->steps(),
                          "step " + std::to_string(m_scheduler->steps()) + " came to its end after all"});
    m_lastStepEnd = now();
    return true;
}

/// Why it failed before anything was committed. A later failure ends the requests.
std::optional<EngineLoop::StepFailure> EngineLoop::runBatch(const Batch &batch)
{
    bool committed = false;
    std::optional<StepFailure> failure = failureOf(
        [&] {
            const double started = now();
            const std::span<const RowResult> results = runAndSample(batch);
            CommitResult &result = m_scheduler->commit(batch, results, now());
            committed = true;
            publishStep(batch, result, started);
        },
        [&] { return "not enough memory for a step of " + std::to_string(batch.forward.tokenIds.size()) + " tokens"; });
    if (failure && committed) {
        abandon(batch, failure->code, failure->message);
        return std::nullopt;
    }
    return failure;
}

/// A result for every row, without anything in it; what they held keeps its memory.
void EngineLoop::clearResults(std::size_t count)
{
    m_sampled.clear();
    m_results.resize(count);
    for (RowResult &result : m_results) {
        result.token = 0;
        result.end = false;
        result.error.clear();
        result.forks.clear();
    }
}

template<typename Use> void EngineLoop::forDue(const Batch &batch, Use use)
{
    const auto guarded = [&](RequestId id, const Sequence &sequence, int logitRow, RowResult &result) {
        if (!result.error.empty())
            return;
        try {
            use(id, sequence, logitRow, result);
        } catch (const std::exception &error) {
            result.error = std::string("its next token could not be drawn: ") + error.what();
        }
    };
    for (const BatchRow &row : batch.rows) {
        if (!row.samples)
            continue;
        RowResult &result = m_results[static_cast<std::size_t>(row.logitRow)];
        guarded(row.request, *m_scheduler->find(row.request), row.logitRow, result);
        const auto forks = m_scheduler->forksOf(row.sequence);
        result.forks.resize(forks.size());
        for (std::size_t f = 0; f < forks.size(); ++f)
            guarded(forks[f]->id, *forks[f], row.logitRow, result.forks[f]);
    }
}

std::span<const std::uint64_t> EngineLoop::allowedFor(RequestStream &stream, const Sequence &sequence)
{
    if (stream.grammar())
        return stream.grammar()->allowed();
    if (sequence.outputTokens() < stream.sampling().minTokens)
        return stream.unending(static_cast<std::size_t>(m_model->executor().vocabSize()));
    return {};
}

void EngineLoop::take(RequestId id, Sampled &&sampled, RowResult &result)
{
    result.token = sampled.token;
    result.error = sampled.error;
    const RequestStream &stream = m_streams.at(id);
    result.end = result.error.empty() && stream.isEnd(sampled.token);
    if (stream.sampling().logprobs >= 0)
        m_sampled[id] = std::move(sampled);
}

std::span<const RowResult> EngineLoop::runAndSample(const Batch &batch)
{
    StepExecutor &executor = m_model->executor();
    const auto vocab = static_cast<std::size_t>(executor.vocabSize());
    clearResults(batch.forward.logitRows.size());
    if (!executor.samples()) {
        const kernels::TensorView logits = executor.run(batch);
        CHECK(logits.elements() >= static_cast<std::int64_t>(m_results.size() * vocab));
        forDue(batch, [&](RequestId id, const Sequence &sequence, int logitRow, RowResult &result) {
            RequestStream &stream = m_streams.at(id);
            const float *row = logits.as<float>() + static_cast<std::size_t>(logitRow) * vocab;
            take(id,
                 m_sampler.sample({row, vocab}, stream.sampling(), sequence.tokens, stream.seed(),
                                  allowedFor(stream, sequence)),
                 result);
        });
        return m_results;
    }
    m_requests.clear(executor.vocabSize());
    forDue(batch, [&](RequestId id, const Sequence &sequence, int logitRow, RowResult &) {
        RequestStream &stream = m_streams.at(id);
        m_requests.add(logitRow, stream.sampling(), sequence.tokens, stream.seed(), allowedFor(stream, sequence));
    });
    std::vector<Sampled> sampled = executor.runAndSample(batch, m_requests);
    std::size_t next = 0; // in the same order, without those that failed above
    forDue(batch, [&](RequestId id, const Sequence &, int, RowResult &result) {
        take(id, std::move(sampled.at(next++)), result);
    });
    return m_results;
}

void EngineLoop::publishStep(const Batch &batch, CommitResult &result, double started)
{
    result.stats.duration = now() - started;
    result.stats.threads = m_model->executor().usedThreads();
    m_pacer.measured(static_cast<int>(batch.forward.tokenIds.size()), result.stats.prefillTokens,
                     result.stats.duration);
    countStep(m_totals, result.stats);
    m_shared.steps.push(result.stats);
    for (const CommitResult::Output &output : result.outputs) {
        try {
            publishOutput(output, result);
        } catch (const std::exception &error) {
            failOutput(output.id, result, std::string("its text could not be made: ") + error.what());
        }
    }
    for (const FinishedSequence &finished : result.finished)
        sendFinished(finished, ErrorCode::Internal);
}

void EngineLoop::publishOutput(const CommitResult::Output &output, CommitResult &result)
{
    RequestStream &stream = m_streams.at(output.id);
    auto finished =
        std::ranges::find(result.finished, output.id, [](const FinishedSequence &one) { return one.sequence.id; });
    const bool ended = finished != result.finished.end();
    const bool isEnd = ended && finished->reason == FinishReason::Stop;
    TokenEvent event = tokenEvent(output, stream, isEnd);
    if (stream.stopped() && ended)
        finished->reason = FinishReason::Stop; // the stop string counts, though a limit was met by the same token
    if (ended)
        append(event, stream.flush());
    std::optional<FinishedSequence> stopped;
    if (stream.stopped() && !ended)
        stopped = m_scheduler->finish(output.id, FinishReason::Stop);
    send(std::move(event));
    if (stopped)
        sendFinished(*stopped);
}

/// Ends a request whose output could not be told; its token is in the sequence already.
void EngineLoop::failOutput(RequestId id, CommitResult &result, const std::string &message)
{
    for (FinishedSequence &finished : result.finished) {
        if (finished.sequence.id == id) {
            finished.reason = FinishReason::Failed;
            finished.error = message;
        }
    }
    if (const auto failed = m_scheduler->finish(id, FinishReason::Failed, message))
        sendFinished(*failed);
}

TokenEvent EngineLoop::tokenEvent(const CommitResult::Output &output, RequestStream &stream, bool isEnd)
{
    TokenEvent event;
    event.id = output.id;
    append(event, stream.append(output.token, isEnd));
    event.ids = {output.token};
    event.cachedTokens = output.cachedTokens;
    if (stream.sampling().logprobs < 0)
        return event;
    const Tokenizer &vocabulary = tokenizer();
    const auto pieceOf = [&vocabulary](int id) {
        return id < vocabulary.vocabSize() ? vocabulary.piece(id) : std::string();
    };
    const Sampled &sampled = m_sampled.at(output.id);
    SampledToken entry{{sampled.token, pieceOf(sampled.token), sampled.logprob}, {}};
    for (const auto &[id, logprob] : sampled.top)
        entry.top.push_back({id, pieceOf(id), logprob});
    event.logprobs.push_back(std::move(entry));
    return event;
}

void EngineLoop::abandon(const Batch &batch, ErrorCode code, const std::string &message)
{
    for (const FinishedSequence &finished : m_scheduler->abandon(batch, message))
        sendFinished(finished, code);
    // A failure after the commit: those that it ended have left the scheduler without a word.
    std::unordered_set<RequestId> known;
    for (const Sequence *sequence : m_scheduler->sequences())
        known.insert(sequence->id);
    std::vector<RequestId> orphans;
    for (const auto &[id, stream] : m_streams)
        if (!known.contains(id))
            orphans.push_back(id);
    for (const RequestId id : orphans) {
        FinishedSequence orphan;
        orphan.sequence.id = id;
        orphan.reason = FinishReason::Failed;
        orphan.error = message;
        sendFinished(orphan, code);
    }
}

void EngineLoop::sendFinished(const FinishedSequence &finished, ErrorCode code)
{
    RequestFinished event;
    event.id = finished.sequence.id;
    event.reason = finished.reason;
    event.usage = usageOf(finished.sequence);
    event.timings = timingsOf(finished.sequence, now());
    event.story = finished.sequence.story;
    event.code = code;
    event.error = finished.error;
    const int room = finished.sequence.contextLimit - finished.sequence.promptTokens;
    event.maxTokens = finished.sequence.maxTokens > 0 ? std::min(finished.sequence.maxTokens, room) : room;
    if (const auto stream = m_streams.find(event.id); stream != m_streams.end()) {
        if (ChoiceGroup *group = stream->second.choices()) {
            group->longest = std::max(group->longest, event.usage.completionTokens);
            event.choices = --group->open == 0 ? group->asked : 0;
            event.longestChoice = group->longest;
        }
        m_streams.erase(stream);
    }
    m_relieved.erase(event.id);
    m_blamed.erase(event.id);
    countFinished(m_totals, event);
    send(std::move(event));
}

} // namespace engine
