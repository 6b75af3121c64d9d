// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/local_engine_loop.h"

#include "kernels/device_lost.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

// What becomes of requests when a step, or the device itself, fails.

namespace engine {

EngineLoop::StepFailure EngineLoop::currentFailure(std::string withoutMemory)
{
    try {
        throw;
    } catch (const kernels::DeviceLost &error) {
        return {error.code(), error.what(), true};
    } catch (const Error &error) {
        return {error.code(), error.what()};
    } catch (const std::bad_alloc &) {
        return {ErrorCode::OutOfMemory, std::move(withoutMemory)};
    } catch (const std::exception &error) {
        return {ErrorCode::Internal, error.what()};
    }
}

/// Tries each request of a failed step alone, so that the failure ends the one that caused it and no others.
void EngineLoop::retry(const Batch &batch, StepFailure failure)
{
    const bool wasAlone = batch.rows.size() == 1;
    for (const BatchRow &row : batch.rows) {
        std::optional<StepFailure> again = failure;
        if (!failure.isLost && !(wasAlone && failure.code == ErrorCode::OutOfMemory))
            again = runBatch(m_scheduler->alone(row));
        if (!again)
            continue;
        if (again->isLost) {
            blame(batch, again->message);
            loseDevice(again->message);
            return;
        }
        if (again->code == ErrorCode::OutOfMemory && relieve(row.request, *again))
            return; // all wait now
        abandon(m_scheduler->alone(row), again->code, again->message);
    }
}

/// The blocks of the step hold neither what they held nor what they should: everything is computed again, once.
void EngineLoop::copyFailed(const Batch &batch, const StepFailure &failure)
{
    if (failure.isLost)
        loseDevice(failure.message);
    else if (m_copiesFailed)
        abandon(batch, failure.code, failure.message);
    else
        m_scheduler->restartAll();
}

/// Once for each request that finds no memory even alone: nothing stays cached, all are computed again, in smaller
/// steps and a smaller pool. False the second time.
bool EngineLoop::relieve(RequestId id, const StepFailure &failure)
{
    if (!m_relieved.insert(id).second)
        return false;
    m_scheduler->restartAll();
    std::string note;
    const std::optional<StepFailure> fault = failureOf([&] { note = shrink(); });
    m_mapIsOld = true;
    if (fault && fault->isLost) {
        loseDevice(fault->message);
        return true;
    }
    note = failure.message + "; " + (fault ? "the KV pool stays as it is: " + fault->message : note);
    send(EngineNotice{EngineNotice::Kind::PoolShrunk, m_scheduler->steps() + 1, note});
    applied(0, std::move(note));
    return true;
}

/// Half of the blocks and half of the tokens of a step, as far as promises and sequences allow. \pre nothing runs
std::string EngineLoop::shrink()
{
    const EngineConfig &effective = m_model->info().effective;
    BatchLimits limits = effective.limits;
    limits.maxNumBatchedTokens = std::max(limits.maxNumSeqs, limits.maxNumBatchedTokens / 2);
    (void)m_model->applyLimits(limits);
    m_scheduler->setLimits(m_thermal.limits(effective.limits));
    KvPoolConfig wanted = effective.kv;
    wanted.numBlocks = std::max(1, wanted.numBlocks / 2);
    KvPoolConfig kv;
    (void)m_model->planKvPool(wanted, m_scheduler->promisedTokens(), kv);
    PoolChange change = m_scheduler->planPool(kv);
    m_model->installKvPool(kv, {}); // frees the old one first, as nothing is carried over
    m_scheduler->setPool(std::move(change));
    return "the cache was dropped, the KV pool holds " + std::to_string(kv.numBlocks) + " blocks and a step "
        + std::to_string(limits.maxNumBatchedTokens) + " tokens from now on";
}

void EngineLoop::failAll(const std::string &message)
{
    std::vector<RequestId> ids;
    for (const Sequence *sequence : m_scheduler->sequences())
        ids.push_back(sequence->id);
    for (const RequestId id : ids)
        if (const auto finished = m_scheduler->finish(id, FinishReason::Failed, message))
            sendFinished(*finished);
}

/// A request that was alone when its device was lost is at fault when that happens again at the same token. It ends, so
/// that nobody waits for it for ever.
void EngineLoop::blame(const Batch &batch, const std::string &message)
{
    if (batch.rows.size() != 1 || !m_model->isRemote())
        return;
    const RequestId id = batch.rows.front().request;
    const int tokens = m_scheduler->find(id)->size();
    if (const auto before = m_blamed.find(id); before != m_blamed.end() && before->second == tokens)
        abandon(batch, ErrorCode::Internal,
                "the request ends, as twice the device was lost while it computed what follows its "
                    + std::to_string(tokens) + " tokens and nothing else: " + message);
    else
        m_blamed[id] = tokens;
}

/// Nothing of the failed step was committed, so what every request has is its tokens: they wait with them.
void EngineLoop::loseDevice(const std::string &message)
{
    if (!m_lost.empty())
        return;
    m_lost = message;
    m_scheduler->restartAll();
    m_mapIsOld = true;
    m_restartAt = m_restarts.lost(now());
    if (!m_restartAt) {
        giveDeviceUp(m_restarts.restarts() > 0 ? message + "; it is out of use, as it was lost "
                             + std::to_string(m_restarts.restarts() + 1) + " times in ten minutes"
                                               : message);
        return;
    }
    send(EngineNotice{EngineNotice::Kind::DeviceLost, m_scheduler->steps(),
                      message + "; " + std::to_string(m_scheduler->sequences().size())
                          + " requests wait with all their tokens while a fresh process opens it"});
}

/// Opens a lost device in another process when the time has come.
void EngineLoop::followLoss()
{
    if (!m_restartAt || now() < *m_restartAt)
        return;
    EngineConfig config = configFor(m_model->info().effective.device);
    config.process = DeviceProcess::Worker;
    const std::optional<StepFailure> failure = openAnew(config);
    if (failure) {
        m_restartAt = m_restarts.lost(now());
        if (!m_restartAt)
            giveDeviceUp(m_lost + "; it could not be opened anew: " + failure->message);
    }
    flushEvents();
}

/// Another device, or the end: as the rule says.
void EngineLoop::giveDeviceUp(const std::string &message)
{
    const DeviceLoss rule = m_model->info().effective.onDeviceLoss;
    const auto waiting = std::to_string(m_scheduler->sequences().size());
    std::string text = message;
    if (rule == DeviceLoss::Fail)
        text += "; the requests on it end, while on device cpu they could go on";
    else if (rule == DeviceLoss::Ask)
        text += "; " + waiting + " requests wait with all their tokens to go on on another device";
    send(EngineNotice{EngineNotice::Kind::DeviceLost, m_scheduler->steps(), std::move(text)});
    if (rule == DeviceLoss::Fail)
        failAll(message);
    else if (rule == DeviceLoss::Cpu)
        m_pending.emplace_front(ContinueCommand{"cpu"});
}

/// What was asked for, with all that may not change while requests go on and all that was changed since.
EngineConfig EngineLoop::configFor(const std::string &device) const
{
    const EngineConfig &effective = m_model->info().effective;
    EngineConfig config = m_asked;
    config.device = device;
    static_cast<AdmissionRules &>(config) = effective;
    config.maxModelLen = effective.maxModelLen;
    config.limits = effective.limits;
    config.kv.blockTokens = effective.kv.blockTokens;
    config.kv.type = effective.kv.type;
    config.kv.valueType = effective.kv.valueType;
    config.kv.prefixCaching = effective.kv.prefixCaching;
    return config;
}

/// Nothing when requests go on with the model opened so.
std::optional<EngineLoop::StepFailure> EngineLoop::openAnew(const EngineConfig &config)
{
    const std::string path = m_model->info().path;
    const std::optional<StepFailure> failure = failureOf([&] {
        if (const std::string changed = m_model->checkFileUnchanged(); !changed.empty())
            throw Error(ErrorCode::Refused, changed);
        goOnWith(
            m_loader(path, config, [this](double, const std::string &) { workWhileLoading(); }, std::stop_token()));
    });
    if (failure)
        return failure;
    m_asked = config;
    m_restartAt.reset();
    const std::string text = "requests go on on device " + m_model->info().effective.device;
    send(EngineNotice{EngineNotice::Kind::DeviceReplaced, m_scheduler->steps() + 1, text});
    applied(0, text);
    return std::nullopt;
}

void EngineLoop::handle(ContinueCommand &command)
{
    if (!m_model || m_lost.empty())
        return;
    m_restartAt.reset();
    EngineConfig config = configFor(command.device);
    config.process = m_model->isRemote() && command.device != "cpu" ? DeviceProcess::Worker : config.process;
    if (const std::optional<StepFailure> failure = openAnew(config)) {
        std::string text = m_lost + "; device " + command.device + " cannot take its place: " + failure->message;
        send(EngineNotice{EngineNotice::Kind::DeviceLost, m_scheduler->steps(), text});
        if (config.onDeviceLoss != DeviceLoss::Ask)
            failAll(text);
    }
    flushEvents();
}

/// Puts the same model on another device in the place of the lost one. Requests keep the vocabulary they began with.
void EngineLoop::goOnWith(std::unique_ptr<ServedModel> model)
{
    CHECK(model->executor().vocabSize() == m_model->executor().vocabSize());
    KvPoolConfig kv;
    (void)model->planKvPool(model->info().effective.kv, m_scheduler->promisedTokens(), kv);
    PoolChange change = m_scheduler->planPool(kv);
    model->installKvPool(kv, {});
    m_shared.state.clearBlocks(); // it borrows the old model's vocabulary
    m_scheduler->setPool(std::move(change));
    if (!m_textModel)
        m_textModel = std::move(m_model);
    m_model = std::move(model);
    m_lost.clear();
    m_relieved.clear();
    const ModelInfo &info = m_model->info();
    m_scheduler->setLimits(m_thermal.limits(info.effective.limits));
    m_pacer = StepPacer(info.parameters, info.backend == "reference");
    m_availableBytes = m_probes.availableMemory();
    m_memory.begin(m_availableBytes, info.effective.memoryReserve);
    m_mapIsOld = true;
}

} // namespace engine
