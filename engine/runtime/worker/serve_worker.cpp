// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/worker/serve_worker.h"

#include "engine/api/worker.h"
#include "engine/runtime/served_loaded_model.h"
#include "engine/runtime/worker/worker_channel.h"
#include "engine/runtime/worker/worker_process.h"
#include "kernels/device_lost.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string_view>
#include <sys/stat.h>

namespace engine {

namespace {

constexpr std::string_view workerFlag = "--device-worker";

template<typename... Values> std::vector<std::byte> bytesOf(const Values &...values)
{
    WireWriter writer;
    writer(values...);
    return writer.take();
}

/// A worker's answers to the calls of its engine.
class WorkerService {
public:
    WorkerService(WorkerChannel &channel, const ModelLoader &loader)
        : m_channel(channel)
        , m_loader(loader)
    {
    }

    /// \throws what the work throws
    std::vector<std::byte> answer(WorkerMessage &&message)
    {
        WireReader in(std::move(message.bytes));
        if (message.call == WorkerCall::Load)
            return load(in);
        CHECK(m_model != nullptr);
        switch (message.call) {
        case WorkerCall::PlanPool:
            return planPool(in);
        case WorkerCall::InstallPool:
            return installPool(in);
        case WorkerCall::Limits:
            return change<BatchLimits>(in, &ServedModel::applyLimits);
        case WorkerCall::Rules:
            return change<AdmissionRules>(in, &ServedModel::applyRules);
        case WorkerCall::Threads:
            return change<int>(in, &ServedModel::applyThreads);
        case WorkerCall::CopyBlock:
            return copyBlock(in);
        case WorkerCall::Run:
            return run(in);
        case WorkerCall::RunAndSample:
            return runAndSample(in);
        default:
            throw Error(ErrorCode::Internal,
                        "a worker was asked for call " + std::to_string(static_cast<unsigned>(message.call)));
        }
    }

private:
    std::vector<std::byte> load(WireReader &in)
    {
        std::string path;
        EngineConfig config;
        in(path, config);
        m_model = m_loader(
            path, config,
            [this](double fraction, const std::string &stage) {
                if (!m_channel.send(WorkerCall::Progress, bytesOf(fraction, stage)))
                    throw Error(ErrorCode::Cancelled, "the engine of this worker is gone");
            },
            std::stop_token());
        StepExecutor &executor = m_model->executor();
        return bytesOf(m_model->info(), WorkerFacts{executor.vocabSize(), executor.ropeVariants(), executor.samples()});
    }

    std::vector<std::byte> planPool(WireReader &in) const
    {
        KvPoolConfig wanted;
        std::int64_t leastTokens = 0;
        in(wanted, leastTokens);
        KvPoolConfig effective;
        const std::string note = m_model->planKvPool(wanted, leastTokens, effective);
        return bytesOf(effective, note);
    }

    std::vector<std::byte> installPool(WireReader &in)
    {
        KvPoolConfig effective;
        std::vector<SlotMove> moves;
        in(effective, moves);
        m_model->installKvPool(effective, moves);
        return bytesOf(m_model->info());
    }

    template<typename Value, typename Method> std::vector<std::byte> change(WireReader &in, Method method)
    {
        Value value{};
        in(value);
        const std::string note = (m_model.get()->*method)(value);
        return bytesOf(m_model->info(), note);
    }

    std::vector<std::byte> copyBlock(WireReader &in)
    {
        BlockCopy copy;
        in(copy);
        m_model->executor().copyBlock(copy);
        return {};
    }

    std::vector<std::byte> run(WireReader &in)
    {
        Batch batch;
        in(batch);
        const kernels::TensorView logits = m_model->executor().run(batch);
        const auto *bytes = logits.data;
        return {bytes, bytes + static_cast<std::size_t>(logits.elements()) * sizeof(float)};
    }

    std::vector<std::byte> runAndSample(WireReader &in)
    {
        Batch batch;
        in(batch, m_requests);
        const std::vector<Sampled> sampled = m_model->executor().runAndSample(batch, m_requests);
        return bytesOf(sampled, m_model->executor().takeNotice());
    }

    WorkerChannel &m_channel;
    const ModelLoader &m_loader;
    std::unique_ptr<ServedModel> m_model;
    SamplingRequests m_requests;
};

/// Whether the worker goes on after it.
bool tellFailure(WorkerChannel &channel, const WorkerFailure &failure)
{
    return channel.send(WorkerCall::Failed, bytesOf(failure)) && !failure.isLost;
}

bool answerNext(WorkerChannel &channel, WorkerService &service, WorkerMessage &&message)
{
    try {
        return channel.send(WorkerCall::Done, service.answer(std::move(message)));
    } catch (const kernels::DeviceLost &error) {
        return tellFailure(channel, {error.code(), true, error.what()});
    } catch (const Error &error) {
        return tellFailure(channel, {error.code(), false, error.what()});
    } catch (const std::bad_alloc &) {
        return tellFailure(channel, {ErrorCode::OutOfMemory, false, "not enough memory in the device's process"});
    } catch (const std::exception &error) {
        return tellFailure(channel, {ErrorCode::Internal, false, error.what()});
    }
}

} // namespace

int serveWorker(const ModelLoader &loader)
{
    struct stat found{};
    if (fstat(workerDescriptor, &found) != 0 || !S_ISSOCK(found.st_mode)) {
        (void)std::fprintf(stderr,
                           "error: %s: descriptor %d is no socket; wanted that of an engine, which alone starts "
                           "workers\n",
                           workerFlag.data(), workerDescriptor);
        return 2;
    }
    (void)std::signal(SIGINT, SIG_IGN); // meant for the engine, which tells
    WorkerChannel channel(workerDescriptor);
    WorkerService service(channel, loader);
    while (std::optional<WorkerMessage> message = channel.receive())
        if (!answerNext(channel, service, std::move(*message)))
            std::_Exit(1); // nothing that a lost device could be asked for at an orderly end
    return 0;
}

std::vector<std::string> ownWorkerCommand()
{
    return {"/proc/self/exe", std::string(workerFlag)};
}

std::optional<int> runAsWorker(int argc, char **argv)
{
    if (argc != 2 || argv[1] != workerFlag)
        return std::nullopt;
    return serveWorker([](const std::string &path, const EngineConfig &config,
                          const LoadedModel::ProgressCallback &progress,
                          std::stop_token stop) { return serveLoadedModel(path, config, progress, std::move(stop)); });
}

} // namespace engine
