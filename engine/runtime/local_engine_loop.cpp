// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/local_engine_loop.h"

#include "engine/runtime/totals.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <new>
#include <utility>

namespace engine {

namespace {

constexpr double fileCheckSeconds = 1.0;
constexpr double mapSeconds = 1.0 / 30;

} // namespace

EngineLoop::EngineLoop(EngineShared &shared, ModelLoader loader, EngineProbes probes)
    : m_shared(shared)
    , m_loader(std::move(loader))
    , m_probes(std::move(probes))
{
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    m_seeds.seed(seed);
}

EngineLoop::~EngineLoop()
{
    m_shared.state.clearBlocks(); // it borrows the model's tokenizer
}

void EngineLoop::run(const std::stop_token &stop)
{
    while (!stop.stop_requested()) {
        takeCommands();
        followLoss();
        handlePending();
        onIdle();
        followTemperature();
        followMemory();
        checkModelFile();
        const bool worked = step();
        refreshBlockMap();
        flushEvents();
        if (!worked)
            sleep(stop);
    }
}

void EngineLoop::takeCommands()
{
    std::vector<Command> commands = m_shared.commands.takeAll();
    m_pending.insert(m_pending.end(), std::make_move_iterator(commands.begin()),
                     std::make_move_iterator(commands.end()));
}

void EngineLoop::handlePending()
{
    while (!m_pending.empty()) {
        Command command = std::move(m_pending.front());
        m_pending.pop_front();
        std::visit([this](auto &one) { handle(one); }, command);
    }
}

void EngineLoop::sleep(const std::stop_token &stop)
{
    using namespace std::chrono;
    double seconds = 3600; // nothing but a command ends the sleep
    if (m_model && !m_fileChangeTold)
        seconds = m_nextFileCheck - now();
    if (m_mapIsOld && m_model && m_shared.watchBlocks)
        seconds = std::min(seconds, m_nextMap - now());
    if (m_restartAt)
        seconds = std::min(seconds, *m_restartAt - now());
    // A little longer than due, so that the deadline has passed on waking.
    m_shared.commands.waitUntil(
        stop,
        steady_clock::now() + duration_cast<steady_clock::duration>(duration<double>(std::max(seconds, 0.0) + 0.001)));
}

void EngineLoop::flushEvents()
{
    if (m_outgoing.empty())
        return;
    publishTotals(); // before anybody hears of an end: totals read then include it
    m_shared.events.push(m_outgoing);
}

void EngineLoop::publishTotals()
{
    if (!m_model) {
        m_shared.state.setTotals({});
        return;
    }
    const BlockManager &blocks = m_scheduler->blocks();
    EngineTotals totals = m_totals; // a plain value
    totals.steps = m_scheduler->steps();
    totals.maxRunning = m_scheduler->maxRunning();
    totals.running = m_scheduler->running();
    totals.waiting = m_scheduler->waiting();
    totals.waitingTokens = m_scheduler->waitingTokens();
    totals.preemptions = m_scheduler->preemptions();
    totals.blocksTotal = blocks.blocks();
    totals.blocksFree = blocks.freeBlocks();
    totals.kvUsage = static_cast<double>(blocks.usedBlocks()) / blocks.blocks();
    totals.windowBlocksTotal = blocks.window().size();
    totals.windowBlocksFree = blocks.window().free();
    totals.prefixQueryTokens = m_scheduler->prefixQueryTokens();
    totals.prefixHitTokens = m_scheduler->prefixHitTokens();
    totals.memory = memoryUse();
    totals.kvBytes = m_model->info().effective.kv.budgetBytes;
    totals.weightBytes = totals.memory.weights;
    totals.workspaceBytes = totals.memory.workspace;
    m_shared.state.setTotals(totals);
}

MemoryUse EngineLoop::memoryUse() const
{
    const ModelInfo &info = m_model->info();
    const BlockManager &blocks = m_scheduler->blocks();
    const WindowPool &window = blocks.window();
    const std::size_t perSlot = info.kvWindowBytesPerToken * static_cast<std::size_t>(blocks.blockTokens());
    const std::size_t perBlock = (info.effective.kv.budgetBytes - perSlot * static_cast<std::size_t>(window.size()))
        / static_cast<std::size_t>(blocks.blocks());
    const auto bytes = [&](int ofContext, int ofWindow) {
        return perBlock * static_cast<std::size_t>(ofContext) + perSlot * static_cast<std::size_t>(ofWindow);
    };
    MemoryUse use;
    use.weights = info.weightBytes;
    use.workspace = info.workspaceBytes;
    use.kvUsed = bytes(blocks.usedBlocks(), window.size() - window.free());
    use.kvCached = bytes(blocks.cachedBlocks(), window.kept());
    use.kvFree = bytes(blocks.freeBlocks() - blocks.cachedBlocks(), window.free() - window.kept());
    use.available = m_availableBytes;
    use.reserve = static_cast<std::size_t>(static_cast<double>(m_availableBytes) * info.effective.memoryReserve);
    return use;
}

void EngineLoop::refreshBlockMap()
{
    if (!m_model || !m_shared.watchBlocks) {
        m_shared.state.clearBlocks();
        m_mapIsOld = true;
        return;
    }
    if (!m_mapIsOld || now() < m_nextMap)
        return;
    m_shared.state.setBlocks(snapshotBlocks(*m_scheduler), tokenizer());
    m_mapIsOld = false;
    m_nextMap = now() + mapSeconds;
}

void EngineLoop::checkModelFile()
{
    if (!m_model || m_fileChangeTold || now() < m_nextFileCheck)
        return;
    m_nextFileCheck = now() + fileCheckSeconds;
    std::string what = m_model->checkFileUnchanged();
    if (what.empty())
        return;
    m_fileChangeTold = true;
    send(ModelFileChanged{m_model->info().path, std::move(what)});
}

void EngineLoop::handle(NudgeCommand & /*command*/)
{
    m_shared.events.wakeIfPending();
}

// Loading.

void EngineLoop::handle(LoadCommand &command)
{
    m_loading = true;
    m_lastProgress = -1;
    ErrorCode code = ErrorCode::Internal;
    std::string message;
    std::unique_ptr<ServedModel> model;
    try {
        if (command.stop.stop_requested())
            throw Error(ErrorCode::Cancelled, command.path + ": loading was cancelled");
        model = m_loader(
            command.path, command.config,
            [this](double fraction, const std::string &stage) { loadProgress(fraction, stage); }, command.stop);
        install(std::move(model));
        m_asked = command.config;
    } catch (const Error &error) {
        code = error.code();
        message = error.what();
    } catch (const std::bad_alloc &) {
        code = ErrorCode::OutOfMemory;
        message = command.path + ": not enough memory to load the model";
    } catch (const std::exception &error) {
        message = command.path + ": " + error.what();
    }
    m_loading = false;
    if (!message.empty())
        send(LoadFailed{command.path, code, std::move(message)});
    flushEvents();
}

void EngineLoop::loadProgress(double fraction, const std::string &stage)
{
    constexpr double progressSeconds = 0.05;
    if (now() - m_lastProgress >= progressSeconds || fraction >= 1.0) {
        m_lastProgress = now();
        send(LoadProgress{fraction, stage});
        flushEvents();
    }
    workWhileLoading();
}

/// Keeps running requests alive: ends and changes act at once, everything that asks for new work stays in order
/// behind the load. Steps take at most half of the time.
void EngineLoop::workWhileLoading()
{
    constexpr double loadSeconds = 0.05; // of loading between two steps
    takeCommands();
    for (auto it = m_pending.begin(); it != m_pending.end();) {
        const auto *cancelled = std::get_if<CancelCommand>(&*it);
        if (cancelled && m_streams.contains(cancelled->id)) {
            cancel(cancelled->id);
            it = m_pending.erase(it);
        } else {
            ++it;
        }
    }
    if (m_model && now() - m_lastStepEnd >= loadSeconds)
        (void)step();
    refreshBlockMap();
    flushEvents();
}

void EngineLoop::install(std::unique_ptr<ServedModel> model)
{
    const EngineConfig &effective = model->info().effective;
    auto encoder = std::make_unique<PromptEncoder>(model->tokenizer(), model->chatTemplate(),
                                                   model->executor().vocabSize(), effective.maxModelLen);
    auto scheduler = std::make_unique<Scheduler>(
        Scheduler::Config{effective.limits, effective, effective.maxModelLen, effective.kv, model->info().kvWindow,
                          model->executor().ropeVariants(), effective.baselines});
    auto grammars = std::make_unique<AnswerGrammars>(model->tokenizer(), model->executor().vocabSize());
    dropModel();
    m_encoder = std::move(encoder);
    m_grammars = std::move(grammars);
    m_scheduler = std::move(scheduler);
    m_model = std::move(model);
    m_sampler = Sampler(m_model->info().backend == "cpu" ? m_model->info().isa : "auto");
    m_totals = EngineTotals(m_model->info().effective.maxModelLen);
    m_restarts = RestartRule(m_model->isRemote() ? m_model->info().effective.deviceRestarts : 0);
    m_wasIdle = true;
    m_thermal = {};
    m_availableBytes = m_probes.availableMemory();
    m_memory.begin(m_availableBytes, m_model->info().effective.memoryReserve);
    m_shared.pulse.setTimeout(m_model->info().effective.stepTimeoutSeconds);
    m_pacer = StepPacer(m_model->info().parameters, m_model->info().backend == "reference");
    m_nextFileCheck = now() + fileCheckSeconds;
    m_fileChangeTold = false;
    m_mapIsOld = true;
    send(ModelLoaded{m_model->info()});
}

void EngineLoop::handle(UnloadCommand & /*command*/)
{
    if (!m_model)
        return;
    dropModel();
    send(ModelUnloaded{});
}

/// Ends what runs and frees the model; changes that waited for an idle moment were meant for it.
void EngineLoop::dropModel()
{
    if (!m_model)
        return;
    std::vector<RequestId> ids;
    for (const Sequence *sequence : m_scheduler->sequences())
        ids.push_back(sequence->id);
    for (const RequestId id : ids)
        cancel(id);
    m_restOfPool.reset();
    m_shared.state.clearBlocks();
    m_scheduler.reset();
    m_encoder.reset();
    m_grammars.reset();
    m_model.reset();
    m_textModel.reset();
    m_lost.clear();
    m_restartAt.reset();
    m_blamed.clear();
    m_relieved.clear();
}

// Requests.

void EngineLoop::handle(SubmitCommand &command)
{
    RequestId leader = 0;
    const auto choices = std::make_shared<ChoiceGroup>();
    for (Submission &submission : command.submissions) {
        if (!submit(submission, leader) || !command.forks)
            continue;
        leader = leader == 0 ? submission.id : leader;
        m_streams.at(submission.id).setChoices(choices);
    }
}

/// Whether the request was taken. One with a `leader` has its prompt.
bool EngineLoop::submit(Submission &submission, RequestId leader)
{
    if (!m_model) {
        refuse(submission, ErrorCode::Refused, "no model is loaded, so the request cannot run");
        return false;
    }
    if (!m_lost.empty() && !m_restartAt && m_model->info().effective.onDeviceLoss != DeviceLoss::Ask) {
        refuse(submission, ErrorCode::Internal, m_lost);
        return false;
    }
    try {
        const Request &request = submission.request;
        if (const std::string fault = checkSampling(request.sampling); !fault.empty())
            throw Error(ErrorCode::Refused, fault);
        checkQueue(1); // before the work of encoding it
        Sequence sequence;
        sequence.id = submission.id;
        sequence.tokens = leader != 0 ? m_scheduler->find(leader)->tokens : m_encoder->encode(request);
        sequence.promptTokens = sequence.size();
        sequence.maxTokens = request.sampling.maxTokens;
        sequence.priority = request.priority;
        sequence.arrivedAt = submission.arrivedAt;
        if (const std::string fault = m_scheduler->refuse(sequence.promptTokens, sequence.maxTokens); !fault.empty())
            throw Error(ErrorCode::Refused, fault);
        checkQueue(sequence.promptTokens);
        RequestStream stream(tokenizer(), request.sampling, m_seeds());
        if (request.jsonSchema && request.sampling.ignoreEos)
            throw Error(ErrorCode::Refused, "a schema: found ignore_eos too, but an answer ends where its form does");
        if (request.jsonSchema && request.sampling.minTokens > 0)
            throw Error(ErrorCode::Refused, "a schema: found min-tokens too, but an answer ends where its form does");
        if (request.jsonSchema) {
            stream.setGrammar(m_grammars->matcher(*request.jsonSchema));
        } else if (!request.prompt && !request.ids) { // an answer in a conversation
            if (auto parser = makeOutputParser(tokenizer(), request.toolsJson.has_value())) {
                parser->begin(sequence.tokens);
                stream.setParser(std::move(parser));
                if (request.toolsJson)
                    stream.setCallGrammar(m_grammars->callMarker(), m_grammars->strictCalls(*request.toolsJson));
            }
        }
        m_streams.emplace(submission.id, std::move(stream));
        send(RequestAccepted{submission.id, sequence.promptTokens, submission.arrivedAt, request.client});
        if (leader != 0)
            m_scheduler->addFork(std::move(sequence), leader);
        else
            m_scheduler->add(std::move(sequence));
        return true;
    } catch (const Error &error) {
        refuse(submission, error.code(), error.what());
    } catch (const std::bad_alloc &) {
        refuse(submission, ErrorCode::OutOfMemory, "not enough memory to take the request");
    } catch (const std::exception &error) {
        refuse(submission, ErrorCode::Internal, error.what());
    }
    return false;
}

/// Whether one more request of this many tokens may wait. \throws Error Busy
void EngineLoop::checkQueue(int promptTokens) const
{
    const AdmissionRules &rules = m_scheduler->rules();
    if (rules.maxNumQueuedReqs == 0 && rules.maxNumQueuedTokens == 0)
        return;
    const Scheduler::QueueLoad queued = m_scheduler->queued(promptTokens);
    if (rules.maxNumQueuedReqs > 0 && queued.requests > rules.maxNumQueuedReqs)
        throw Error(ErrorCode::Busy,
                    "the queue is full: " + std::to_string(queued.requests - 1) + " requests wait, allowed are "
                        + std::to_string(rules.maxNumQueuedReqs) + " (max-num-queued-reqs)");
    if (rules.maxNumQueuedTokens > 0 && queued.tokens > rules.maxNumQueuedTokens)
        throw Error(ErrorCode::Busy,
                    "the queue is full: with this request " + std::to_string(queued.tokens)
                        + " prompt tokens would wait, allowed are " + std::to_string(rules.maxNumQueuedTokens)
                        + " (max-num-queued-tokens)");
}

void EngineLoop::refuse(const Submission &submission, ErrorCode code, const std::string &message)
{
    m_streams.erase(submission.id);
    RequestFinished finished;
    finished.id = submission.id;
    finished.reason = FinishReason::Failed;
    finished.timings.queueMs = finished.timings.e2eMs = (now() - submission.arrivedAt) * 1000.0;
    finished.code = code;
    finished.error = message;
    if (code == ErrorCode::Busy)
        finished.retryAfterSeconds = estimatedWaitSeconds(m_totals, m_scheduler->waiting(), m_scheduler->running());
    countFinished(m_totals, finished);
    send(std::move(finished));
}

void EngineLoop::handle(CancelCommand &command)
{
    cancel(command.id);
}

void EngineLoop::cancel(RequestId id)
{
    if (!m_scheduler)
        return;
    const auto finished = m_scheduler->finish(id, FinishReason::Cancelled);
    if (!finished)
        return; // it has ended already
    m_mapIsOld = true;
    if (OutputDelta rest = m_streams.at(id).flush(); !rest.empty()) {
        TokenEvent event;
        event.id = id;
        event.text = std::move(rest.content);
        event.reasoning = std::move(rest.reasoning);
        event.toolCalls = std::move(rest.toolCalls);
        event.cachedTokens = finished->sequence.cachedTokens;
        send(std::move(event));
    }
    sendFinished(*finished);
}

void EngineLoop::handle(SamplingCommand &command)
{
    const auto stream = m_streams.find(command.id);
    if (stream == m_streams.end())
        return; // it has ended already
    if (std::string fault = checkSampling(command.sampling); !fault.empty()) {
        send(SamplingRefused{command.id, std::move(fault)});
        return;
    }
    m_scheduler->setMaxTokens(command.id, command.sampling.maxTokens);
    stream->second.setSampling(std::move(command.sampling));
}

// Limits, pool, threads.

/// Runs a change of the model; a failure leaves the old value and becomes the note.
template<typename Change> std::string EngineLoop::tryChange(const Change &change)
{
    if (!m_model)
        return "no model is loaded; a model is loaded with values of its own";
    std::string note;
    const std::optional<StepFailure> failure = failureOf([&] { note = change(); });
    if (failure && failure->isLost)
        loseDevice(failure->message);
    return failure ? failure->message : note;
}

void EngineLoop::applied(std::uint64_t revision, std::string note)
{
    ParametersApplied event;
    event.revision = revision;
    if (m_model) {
        event.step = m_scheduler->steps() + 1;
        event.effective = m_model->info().effective;
        event.effective.limits = m_scheduler->limits();
    }
    event.note = std::move(note);
    send(std::move(event));
}

void EngineLoop::handle(LimitsCommand &command)
{
    std::string note = tryChange([&] {
        const BatchLimits wanted = Scheduler::clampLimits(command.limits);
        std::string why = m_model->applyLimits(wanted);
        m_scheduler->setLimits(m_thermal.limits(m_model->info().effective.limits));
        if (why.empty() && wanted != command.limits)
            why = "max-num-batched-tokens is at least max-num-seqs, and that at least 1";
        growWindow();
        return why;
    });
    applied(command.revision, std::move(note));
}

void EngineLoop::handle(RulesCommand &command)
{
    std::string note = tryChange([&] {
        std::string why = m_model->applyRules(command.rules);
        m_scheduler->setRules(m_model->info().effective);
        return why;
    });
    applied(command.revision, std::move(note));
}

void EngineLoop::handle(KvPoolCommand &command)
{
    m_restOfPool.reset();
    changePool(command);
}

/// More sequences or larger steps need more room in layers that hold only a window. Without memory for it fewer
/// sequences run than max-num-seqs says. \throws Error OutOfMemory
void EngineLoop::growWindow()
{
    KvPoolConfig kv;
    (void)m_model->planKvPool(m_model->info().effective.kv, 0, kv);
    if (kv.windowBlocks <= m_scheduler->blocks().window().size())
        return;
    PoolChange change = m_scheduler->planPool(kv);
    m_model->installKvPool(kv, change.moves);
    m_scheduler->setPool(std::move(change));
    m_mapIsOld = true;
}

/// Between two steps: what runs is carried over into the new pool, and what finds no room there is computed again.
void EngineLoop::changePool(const KvPoolCommand &command)
{
    bool heldBack = false;
    std::string note = tryChange([&] {
        const std::int64_t promised = m_scheduler->promisedTokens();
        KvPoolConfig kv;
        std::string why = m_model->planKvPool(command.kv, promised, kv);
        PoolChange change = m_scheduler->planPool(kv);
        m_model->installKvPool(kv, change.moves);
        m_scheduler->setPool(std::move(change));
        heldBack = !why.empty() && m_scheduler->blocks().blocksForTokens(promised) == kv.numBlocks;
        return why;
    });
    if (heldBack && !m_scheduler->idle())
        m_restOfPool = command;
    m_mapIsOld = true;
    applied(command.revision, std::move(note));
}

void EngineLoop::handle(ThreadsCommand &command)
{
    applied(command.revision, tryChange([&] { return m_model->applyThreads(command.threads); }));
}

} // namespace engine
