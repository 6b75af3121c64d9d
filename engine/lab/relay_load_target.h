// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/events.h"
#include "engine/api/stats.h"
#include "engine/core/mailbox.h"
#include "engine/lab/kv_usage.h"
#include "engine/lab/load_generator.h"

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <variant>

namespace engine {

/// A load on an engine whose requests and events go through somebody else, as in a window: its owner submits what is
/// asked for and passes on what comes back. Durations are the engine's own; figures are those of the requests of the
/// load, others may run beside them.
///
/// Thread: the LoadTarget side belongs to the thread of runLoad, the rest to the owner's. No call of the owner waits.
class RelayLoadTarget final : public LoadTarget {
public:
    /// Called on the thread of runLoad; both pass the wish on to the owner's thread.
    struct Owner {
        std::function<void(std::size_t index, Request request)> submit; ///< answered with submitted()
        std::function<void()> cancelAll;                                ///< ends what was submitted
    };
    /// \pre a model is loaded
    explicit RelayLoadTarget(Owner owner);

    // The owner's side
    void submitted(std::size_t index, RequestId id);
    /// Of any request; those that are not of the load are skipped.
    void finished(const RequestFinished &event);
    /// \pre before finished() of the requests that ended in these steps
    void stepped(std::span<const StepStats> steps);
    /// Nothing will come any more: what is open counts as cancelled.
    void abandon();

    // The side of runLoad
    [[nodiscard]] double now() const override;
    void send(std::size_t index, const LoadRequest &request) override;
    [[nodiscard]] std::vector<std::pair<std::size_t, LoadSample>> wait(double seconds) override;
    void cancelAll() override { m_owner.cancelAll(); }
    [[nodiscard]] ServingFigures figures() override;
    /// Requests of others that had a share in the steps of this load.
    [[nodiscard]] int others() const { return static_cast<int>(m_others.size()); }

private:
    struct Submitted {
        std::size_t index = 0;
        RequestId id = 0;
    };
    struct Abandoned { };
    using Message = std::variant<Submitted, RequestFinished, StepStats, Abandoned>;
    using Ended = std::vector<std::pair<std::size_t, LoadSample>>;

    void take(const Submitted &message, Ended &ended);
    void take(const RequestFinished &message, Ended &ended);
    void take(const StepStats &message, Ended &ended);
    void take(const Abandoned &message, Ended &ended);

    Owner m_owner;
    Mailbox<Message> m_box; // all below belongs to the thread of runLoad
    std::chrono::steady_clock::time_point m_start = std::chrono::steady_clock::now();
    std::map<std::size_t, double> m_sentAt; ///< of open requests, by index
    std::unordered_map<RequestId, std::size_t> m_index;
    std::unordered_set<RequestId> m_own; ///< ended ones too
    std::set<RequestId> m_others;
    KvUsage m_usage;
    ServingFigures m_figures;
    std::uint64_t m_preemptions = 0;
    std::int64_t m_promptTokens = 0;
    std::int64_t m_cachedTokens = 0;
};

} // namespace engine
