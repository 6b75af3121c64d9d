// SPDX-License-Identifier: GPL-3.0-or-later
// A decode step of the whole engine allocates nothing: scheduler, forward pass, sampler, statistics and events.
#include "engine/api/engine.h"

#include "tests/support/engine_driver.h"
#include "tests/support/shared_data.h"

#include <QTest>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

#include <execinfo.h>
#include <unistd.h>

using namespace engine;

namespace {

/// Where memory was asked for by a thread that computes steps; the first ones are kept to be told.
class Allocations {
public:
    void note()
    {
        const std::int64_t number = m_count.fetch_add(1, std::memory_order_relaxed);
        if (m_keeps && number < kept)
            m_depths[static_cast<std::size_t>(number)] =
                backtrace(m_stacks[static_cast<std::size_t>(number)].data(), depth);
    }
    [[nodiscard]] std::int64_t count() const { return m_count.load(); }
    /// With LATHE_SHOW_ALLOCATIONS: the stacks of those from now on.
    void restart(bool keeps)
    {
        m_keeps = keeps;
        m_count = 0;
    }
    void show() const
    {
        for (std::int64_t i = 0; m_keeps && i < std::min<std::int64_t>(kept, m_count); ++i) {
            backtrace_symbols_fd(m_stacks[static_cast<std::size_t>(i)].data(), m_depths[static_cast<std::size_t>(i)],
                                 STDERR_FILENO);
            qInfo("--");
        }
    }

private:
    static constexpr int kept = 64;
    static constexpr int depth = 16;
    std::atomic<std::int64_t> m_count{0};
    std::atomic<bool> m_keeps{false};
    std::array<std::array<void *, depth>, kept> m_stacks{};
    std::array<int, kept> m_depths{};
};

Allocations allocations;
thread_local bool readsOnly = false; // the thread that takes events and statistics

} // namespace

void *operator new(std::size_t bytes)
{
    if (!readsOnly)
        allocations.note();
    if (void *memory = std::malloc(std::max<std::size_t>(bytes, 1)); memory != nullptr)
        return memory;
    throw std::bad_alloc();
}

void operator delete(void *memory) noexcept
{
    std::free(memory);
}

void operator delete(void *memory, std::size_t) noexcept
{
    std::free(memory);
}

class TestStepAllocations : public QObject {
    Q_OBJECT

private slots:
    void initTestCase() { readsOnly = true; }

    void aDecodeStepAllocatesNothing_data()
    {
        QTest::addColumn<QString>("model");
        QTest::newRow("dense") << "llama/llama-f16.gguf";
        QTest::newRow("dense with a window") << "gemma3/gemma3-f16.gguf";
        QTest::newRow("mixture") << "qwen3moe/qwen3moe-f16.gguf";
        QTest::newRow("mixture in groups") << "deepseek3/deepseek3-f16.gguf";
    }
    void aDecodeStepAllocatesNothing()
    {
        QFETCH(QString, model);
        const QString path = shared_data::path("tiny/models/" + model);
        if (path.isEmpty())
            QSKIP(qPrintable("needs tiny/models/" + model));
        std::int64_t least = std::numeric_limits<std::int64_t>::max();
        for (int round = 0; round < 8 && least > 0; ++round) {
            // A new engine, as one that has had requests as long has room for what would grow with every token.
            EngineConfig config;
            config.threads = 2;
            const auto engine = makeEngine();
            EngineDriver driver(*engine);
            QVERIFY(driver.load(path.toStdString(), config));
            const int tokens = std::min(driver.loaded[0].effective.maxModelLen - promptTokens, 240);
            (void)leastOfWindow(*engine, driver, requests(warmTokens), 0);
            least = std::min(least, leastOfWindow(*engine, driver, requests(tokens), promptTokens + warmTokens));
        }
        if (least > 0)
            allocations.show();
        // Of all threads but this one, in the best run of `window` steps.
        QVERIFY2(least <= lateReader, qPrintable(QString::number(least)));
    }

private:
    static constexpr int promptTokens = 9;
    static constexpr int warmTokens = 64;
    static constexpr std::uint64_t window = 40; ///< steps: more than a block of 16 tokens, so that each begins one

    /// Lists of events grow now and then when this thread is late on a busy machine. What allocates in every step, or
    /// with every block of each sequence, comes to 10 at least.
    static constexpr std::int64_t lateReader = 3;

    /// One for each way to sample.
    static std::vector<Request> requests(int tokens)
    {
        std::vector<Request> requests(5);
        for (std::size_t i = 0; i < requests.size(); ++i) {
            std::vector<int> ids(promptTokens);
            for (std::size_t k = 0; k < ids.size(); ++k)
                ids[k] = static_cast<int>(3 + i + 5 * k);
            requests[i].ids = std::move(ids);
            SamplingParams &sampling = requests[i].sampling;
            sampling.maxTokens = tokens;
            sampling.ignoreEos = true;
            sampling.temperature = i == 0 ? 0.0 : 0.8;
            sampling.topK = i == 1 ? 20 : 0;
            sampling.topP = i == 1 || i == 2 ? 0.9 : 1.0;
            sampling.minP = i == 3 ? 0.05 : 0.0;
            sampling.repetitionPenalty = i == 4 ? 1.2 : 1.0;
        }
        return requests;
    }

    /// The least that `window` steps allocated in which all requests decoded beyond `context` tokens.
    static std::int64_t leastOfWindow(Engine &engine, EngineDriver &driver, const std::vector<Request> &requests,
                                      int context)
    {
        const std::vector<RequestId> ids = engine.submitAll(requests);
        std::int64_t least = std::numeric_limits<std::int64_t>::max();
        std::uint64_t first = 0; // step behind which the window began; 0 = it has not
        const auto isSteady = [&](const StepStats &step) {
            return step.decodeTokens == static_cast<int>(requests.size()) && step.prefillTokens == 0
                && step.rows.front().contextTokens > context;
        };
        const bool ended = driver.until([&] {
            const std::vector<StepStats> steps = engine.takeSteps();
            const std::int64_t count = allocations.count(); // by all of these steps, or by some more
            if (!steps.empty() && !std::ranges::all_of(steps, isSteady)) {
                first = 0;
            } else if (!steps.empty() && (first == 0 || steps.back().step >= first + window)) {
                least = first == 0 ? least : std::min(least, count);
                if (first != 0 && count > 0)
                    allocations.show();
                first = steps.back().step;
                allocations.restart(qEnvironmentVariableIsSet("LATHE_SHOW_ALLOCATIONS"));
            }
            return std::ranges::all_of(ids, [&](RequestId id) { return driver.answers[id].finished.has_value(); });
        });
        return ended ? least : -1;
    }
};

QTEST_GUILESS_MAIN(TestStepAllocations)
#include "tst_step_allocations.moc"
