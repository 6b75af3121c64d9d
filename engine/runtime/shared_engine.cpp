// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/engine.h"
#include "engine/runtime/event_outbox.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

namespace engine {

namespace {

/// The engine between both sides: sorts its events. Any thread.
class SharedEngine {
public:
    explicit SharedEngine(std::unique_ptr<Engine> engine)
        : m_engine(std::move(engine))
    {
        m_engine->setWakeCallback([this] { sort(); });
        sort();
    }
    ~SharedEngine() { m_engine->setWakeCallback({}); }
    SharedEngine(const SharedEngine &) = delete;
    SharedEngine &operator=(const SharedEngine &) = delete;

    [[nodiscard]] Engine &engine() { return *m_engine; }
    [[nodiscard]] EventOutbox &outbox(bool guest) { return guest ? m_guest : m_owner; }

    /// Runs a submit of the guest. Events may come before it has returned the ids, even on this thread: they are kept
    /// until it is known whose they are.
    template<typename Submit> std::vector<RequestId> submitForGuest(Submit submit)
    {
        {
            const std::lock_guard lock(m_mutex);
            ++m_submitting;
        }
        std::vector<RequestId> ids;
        try {
            ids = submit();
        } catch (...) {
            settle({});
            throw;
        }
        settle(ids);
        return ids;
    }

    [[nodiscard]] std::vector<RequestId> openOfGuest()
    {
        const std::lock_guard lock(m_mutex);
        return {m_open.begin(), m_open.end()};
    }

private:
    void settle(const std::vector<RequestId> &ids)
    {
        const std::lock_guard lock(m_mutex);
        m_open.insert(ids.begin(), ids.end());
        --m_submitting;
        deliver(std::exchange(m_early, {}));
    }

    void sort()
    {
        const std::lock_guard lock(m_mutex);
        deliver(m_engine->takeEvents());
    }

    // Under the lock, so that no batch of events overtakes the one before.
    void deliver(std::vector<Event> events)
    {
        std::vector<Event> owner;
        std::vector<Event> guest;
        for (Event &event : events) {
            const RequestId id = requestOf(event);
            if (id == 0 || (!m_open.contains(id) && m_submitting == 0)) {
                owner.push_back(std::move(event));
            } else if (!m_open.contains(id)) {
                m_early.push_back(std::move(event));
            } else {
                const bool last = std::holds_alternative<RequestFinished>(event);
                if (last)
                    m_open.erase(id);
                if (last || std::holds_alternative<RequestAccepted>(event))
                    owner.push_back(event);
                guest.push_back(std::move(event));
            }
        }
        if (!guest.empty())
            m_guest.push(std::move(guest));
        if (!owner.empty())
            m_owner.push(std::move(owner));
    }

    EventOutbox m_owner;
    EventOutbox m_guest;
    std::mutex m_mutex;
    std::unordered_set<RequestId> m_open; // of the guest; guarded by m_mutex, as all below but the engine
    std::vector<Event> m_early;
    int m_submitting = 0;
    std::unique_ptr<Engine> m_engine; // last: ends before anything its callback uses
};

class Side final : public Engine {
public:
    Side(std::shared_ptr<SharedEngine> shared, bool guest)
        : m_shared(std::move(shared))
        , m_guest(guest)
    {
    }
    ~Side() override
    {
        outbox().setWakeCallback({});
        if (m_guest)
            for (const RequestId id : m_shared->openOfGuest())
                engine().cancel(id);
    }
    Side(const Side &) = delete;
    Side &operator=(const Side &) = delete;

    void loadModel(const std::string &path, const EngineConfig &config) override { engine().loadModel(path, config); }
    void cancelLoad() override { engine().cancelLoad(); }
    void unloadModel() override { engine().unloadModel(); }
    RequestId submit(Request request) override
    {
        std::vector<Request> one;
        one.push_back(std::move(request));
        return submitAll(std::move(one)).front();
    }
    std::vector<RequestId> submitAll(std::vector<Request> requests) override
    {
        const auto submit = [&] { return engine().submitAll(std::move(requests)); };
        return m_guest ? m_shared->submitForGuest(submit) : submit();
    }
    std::vector<RequestId> submitForks(Request request, int n) override
    {
        const auto submit = [&] { return engine().submitForks(std::move(request), n); };
        return m_guest ? m_shared->submitForGuest(submit) : submit();
    }
    void cancel(RequestId id) override { engine().cancel(id); }
    void setSampling(RequestId id, const SamplingParams &sampling) override { engine().setSampling(id, sampling); }
    std::uint64_t setLimits(const BatchLimits &limits) override { return engine().setLimits(limits); }
    std::uint64_t setRules(const AdmissionRules &rules) override { return engine().setRules(rules); }
    std::uint64_t setKvPool(const KvPoolConfig &kv) override { return engine().setKvPool(kv); }
    std::uint64_t setThreads(int threads) override { return engine().setThreads(threads); }
    void continueOn(const std::string &device) override { engine().continueOn(device); }
    std::vector<Event> takeEvents() override { return outbox().takeAll(); }
    void setWakeCallback(std::function<void()> wake) override
    {
        outbox().setWakeCallback(std::move(wake));
        outbox().wakeIfPending();
    }
    std::vector<StepStats> takeSteps() override
    {
        return m_guest ? std::vector<StepStats>() : engine().takeSteps(); // whoever reads them takes them away
    }
    [[nodiscard]] EngineTotals totals() const override { return m_shared->engine().totals(); }
    void watch(Topic topic, bool on) override { engine().watch(topic, on); }
    [[nodiscard]] std::shared_ptr<const BlockMap> blockMap() const override { return m_shared->engine().blockMap(); }
    [[nodiscard]] std::shared_ptr<const std::vector<DeviceStats>> devices() const override
    {
        return m_shared->engine().devices();
    }
    std::string blockText(int block) override { return engine().blockText(block); }

private:
    [[nodiscard]] Engine &engine() { return m_shared->engine(); }
    [[nodiscard]] EventOutbox &outbox() { return m_shared->outbox(m_guest); }

    std::shared_ptr<SharedEngine> m_shared;
    bool m_guest;
};

} // namespace

EngineSides shareEngine(std::unique_ptr<Engine> engine)
{
    const auto shared = std::make_shared<SharedEngine>(std::move(engine));
    return {std::make_unique<Side>(shared, false), std::make_unique<Side>(shared, true)};
}

} // namespace engine
