// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/lab/load_generator.h"

#include <algorithm>

namespace engine {
namespace {

constexpr double waitSeconds = 0.05;  // how often a stop request is looked at
constexpr double cancelSeconds = 1.0; // within which cancelled requests should have ended

/// The state of one run.
class Run {
public:
    Run(LoadTarget &target, std::span<const LoadRequest> requests, const LoadOptions &options)
        : m_target(target)
        , m_requests(requests)
        , m_due(arrivalTimes(static_cast<int>(requests.size()), options.requestRate, options.seed))
        , m_limit(options.concurrency > 0 ? static_cast<std::size_t>(options.concurrency) : requests.size())
        , m_start(target.now())
    {
    }

    [[nodiscard]] bool done() const { return m_sent == m_requests.size() && m_open == 0; }
    [[nodiscard]] std::size_t open() const { return m_open; }
    [[nodiscard]] const std::vector<LoadSample> &samples() const { return m_samples; }

    void sendDue()
    {
        while (m_sent < m_requests.size() && m_open < m_limit && m_target.now() - m_start >= m_due[m_sent]) {
            m_target.send(m_sent, m_requests[m_sent]);
            ++m_sent;
            ++m_open;
        }
    }

    void wait()
    {
        double seconds = waitSeconds;
        if (m_sent < m_requests.size() && m_open < m_limit)
            seconds = std::clamp(m_due[m_sent] - (m_target.now() - m_start), 0.0, waitSeconds);
        take(seconds);
    }

    void take(double seconds)
    {
        for (auto &[index, sample] : m_target.wait(seconds)) {
            m_samples.push_back(std::move(sample));
            --m_open;
        }
    }

private:
    LoadTarget &m_target;
    std::span<const LoadRequest> m_requests;
    std::vector<double> m_due;
    std::size_t m_limit;
    double m_start;
    std::size_t m_sent = 0;
    std::size_t m_open = 0;
    std::vector<LoadSample> m_samples;
};

} // namespace

LoadReport runLoad(LoadTarget &target, std::span<const LoadRequest> requests, const LoadOptions &options,
                   const std::stop_token &stop, const std::function<void(int)> &onProgress)
{
    Run run(target, requests, options);
    while (!run.done() && !stop.stop_requested()) {
        run.sendDue();
        run.wait();
        if (onProgress)
            onProgress(static_cast<int>(run.samples().size()));
    }
    if (!run.done()) {
        target.cancelAll();
        for (const double end = target.now() + cancelSeconds; run.open() > 0 && target.now() < end;)
            run.take(waitSeconds);
    }
    return summarize(run.samples(), target.figures(), options.goodput);
}

} // namespace engine
