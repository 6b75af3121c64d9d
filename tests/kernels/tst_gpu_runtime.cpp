// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/peer_copies.h"
#include "kernels/cuda/runtime_device.h"
#include "kernels/cuda/step_memory.h"
#include "kernels/device_lost.h"
#include "kernels/gpus.h"

#include <QTest>

#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

using namespace kernels;
using namespace kernels::cuda;

namespace {

/// What a scripted driver does; shared, as the runtime takes the driver.
struct Script {
    int version = 13000;
    int library = 13010;
    int countError = 0;
    std::vector<DeviceFacts> devices{{"H200", 9, 0, 141U << 20U}, {"T4", 7, 5, 15U << 20U}};
    int useError = 0;
    int failingCall = 0; ///< the n-th call from here that can fail does so
    int error = 0;       ///< with this; errors that stay stay
    bool stays = false;
    int open = 0;                   ///< buffers, streams and graphs
    std::vector<std::string> calls; ///< of those that streams and graphs are made of
    std::vector<int> reached;       ///< devices, in turn
    bool losesBytes = false;        ///< in copies between devices
};

/// A graph, and an instance of one: the copies that it is made of.
using Copies = std::vector<std::function<void()>>;

class ScriptedDriver final : public Driver {
public:
    explicit ScriptedDriver(Script &script)
        : m_script(script)
    {
    }
    int libraryVersion() const override { return m_script.library; }
    int driverVersion(int &version) override
    {
        version = m_script.version;
        return 0;
    }
    int deviceCount(int &count) override
    {
        count = static_cast<int>(m_script.devices.size());
        return m_script.version == 0 ? 35 : m_script.countError;
    }
    int deviceFacts(int index, DeviceFacts &facts) override
    {
        facts = m_script.devices.at(static_cast<std::size_t>(index));
        return 0;
    }
    int useDevice(int index) override
    {
        m_inUse = index;
        return m_script.useError;
    }
    int canReach(int from, int to, bool &can) override
    {
        can = from + to == 1; // 0 and 1 alone
        return fault();
    }
    int reach(int to) override
    {
        m_script.reached.push_back(m_inUse * 10 + to);
        return fault();
    }
    int memory(std::size_t &free, std::size_t &total) override
    {
        free = 4096;
        total = 8192;
        return 0;
    }
    int allocate(void *&memory, std::size_t bytes) override { return take(memory, bytes); }
    int zero(void *memory, std::size_t bytes) override
    {
        std::memset(memory, 0, bytes);
        return fault();
    }
    int free(void *memory) override { return give(memory); }
    int allocatePinned(void *&memory, std::size_t bytes) override { return take(memory, bytes); }
    int freePinned(void *memory) override { return give(memory); }
    int makeStream(StreamHandle &stream) override
    {
        stream = nullptr;
        m_script.open += 1;
        return fault();
    }
    int destroyStream(StreamHandle) override
    {
        m_script.open -= 1;
        return 0;
    }
    int synchronize(StreamHandle) override { return call("synchronize"); }
    int synchronizeDevice() override { return fault(); }
    int copy(const void *from, void *to, std::size_t bytes, StreamHandle) override
    {
        if (!m_capturing) {
            m_script.calls.emplace_back("copy");
            return copyNow(from, to, bytes);
        }
        const int error = call("captured copy");
        if (error == 0)
            m_captured.push_back([from, to, bytes] { std::memcpy(to, from, bytes); });
        return error;
    }
    int copyNow(const void *from, void *to, std::size_t bytes) override
    {
        const int error = fault();
        if (error == 0)
            std::memcpy(to, from, bytes);
        if (error == 0 && m_script.losesBytes)
            static_cast<char *>(to)[2050] ^= 1;
        return error;
    }
    int beginCapture(StreamHandle) override
    {
        const int error = call("beginCapture");
        m_capturing = error == 0;
        return error;
    }
    int endCapture(StreamHandle, GraphHandle &graph) override
    {
        m_capturing = false;
        graph = nullptr;
        const int error = call("endCapture");
        if (error == 0) {
            graph = reinterpret_cast<GraphHandle>(new Copies(std::exchange(m_captured, {})));
            m_script.open += 1;
        }
        m_captured.clear();
        return error;
    }
    int destroyGraph(GraphHandle graph) override { return destroy("destroyGraph", graph); }
    int instantiate(GraphInstanceHandle &instance, GraphHandle graph) override
    {
        const int error = call("instantiate");
        if (error == 0) {
            instance = reinterpret_cast<GraphInstanceHandle>(new Copies(*reinterpret_cast<Copies *>(graph)));
            m_script.open += 1;
        }
        return error;
    }
    int destroyInstance(GraphInstanceHandle instance) override { return destroy("destroyInstance", instance); }
    int launchGraph(GraphInstanceHandle instance, StreamHandle) override
    {
        const int error = call("launchGraph");
        if (error == 0)
            for (const auto &copy : *reinterpret_cast<Copies *>(instance))
                copy();
        return error;
    }
    int lastError() override { return m_script.stays && m_script.failingCall < 0 ? m_script.error : 0; }
    std::string errorText(int error) const override { return "text of " + std::to_string(error); }

private:
    int fault()
    {
        if (m_script.failingCall < 0)
            return m_script.stays ? m_script.error : 0;
        if (m_script.failingCall == 0 || --m_script.failingCall > 0)
            return 0;
        m_script.failingCall = -1;
        return m_script.error;
    }
    int call(const char *name)
    {
        m_script.calls.emplace_back(name);
        return fault();
    }
    template<typename Handle> int destroy(const char *name, Handle handle)
    {
        m_script.calls.emplace_back(name);
        m_script.open -= handle != nullptr ? 1 : 0;
        delete reinterpret_cast<Copies *>(handle);
        return 0;
    }
    int take(void *&memory, std::size_t bytes)
    {
        if (const int error = fault(); error != 0)
            return error;
        memory = std::malloc(bytes);
        std::memset(memory, 0xff, bytes);
        m_script.open += 1;
        return 0;
    }
    int give(void *memory)
    {
        std::free(memory);
        m_script.open -= memory != nullptr ? 1 : 0;
        return 0;
    }
    Script &m_script;
    int m_inUse = 0;
    bool m_capturing = false;
    Copies m_captured;
};

/// Steps of one input and one table that is always the same; an operation is a copy of both to where the host looks.
struct Steps {
    explicit Steps(Runtime &device)
        : runtime(device)
        , stream(device)
        , out(device.allocate(2 * room))
    {
        (void)stream.plan(true);
        run(0, 4);
        (void)stream.plan(false);
    }

    /// What came out of a step with numbers from `first` on, of one shape for each count.
    std::vector<int> run(int first, int rows)
    {
        std::vector<int> input(static_cast<std::size_t>(rows));
        std::iota(input.begin(), input.end(), first);
        const std::array inputs{std::as_bytes(std::span(input))};
        stream.runStep({rows, 1, 0}, inputs, [&] {
            const int *given = stream.put(std::span<const int>(input));
            const int *same = stream.put(std::span<const int>(table));
            if (stream.plans())
                return;
            runtime.copy(given, out->data(), inputs[0].size(), stream.handle());
            runtime.copy(same, out->data() + room, std::span(table).size_bytes(), stream.handle());
        });
        stream.synchronize();
        std::vector<int> found(input.size() + table.size());
        std::memcpy(found.data(), out->data(), inputs[0].size());
        std::memcpy(found.data() + input.size(), out->data() + room, std::span(table).size_bytes());
        return found;
    }

    static constexpr std::size_t room = 512;
    Runtime &runtime;
    DeviceStream stream;
    std::unique_ptr<Buffer> out;
    std::vector<int> table{70, 71, 72, 73};
};

std::vector<int> wantedOf(int first, int rows)
{
    std::vector<int> wanted(static_cast<std::size_t>(rows));
    std::iota(wanted.begin(), wanted.end(), first);
    wanted.insert(wanted.end(), {70, 71, 72, 73});
    return wanted;
}

std::unique_ptr<Runtime> open(Script &script, int index = 0)
{
    return makeDeviceRuntime(std::make_unique<ScriptedDriver>(script), index);
}

template<typename Work> std::string messageOf(Work work, ErrorCode wanted)
{
    try {
        work();
    } catch (const Error &error) {
        return error.code() == wanted ? error.what() : "another code: " + std::string(error.what());
    }
    return "no error";
}

} // namespace

/// The runtime on NVIDIA's driver, against a scripted one.
class TestGpuRuntime : public QObject {
    Q_OBJECT

private slots:
    void saysWhyThereIsNoDevice_data()
    {
        QTest::addColumn<int>("version");
        QTest::addColumn<int>("countError");
        QTest::addColumn<int>("index");
        QTest::addColumn<QByteArray>("wanted");
        QTest::newRow("no driver") << 0 << 0 << 0
                                   << QByteArray("device cuda:0 is not available: no NVIDIA driver was found "
                                                 "(libcuda.so.1), wanted one for CUDA 13.0 or newer");
        QTest::newRow("old driver") << 12040 << 35 << 0
                                    << QByteArray("device cuda:0 is not available: the NVIDIA driver is too old: found "
                                                  "one for CUDA 12.4, wanted CUDA 13.0 or newer");
        QTest::newRow("no GPU") << 13000 << 100 << 0
                                << QByteArray("device cuda:0 is not available: the NVIDIA driver (CUDA 13.0) shows no "
                                              "GPU");
        QTest::newRow("broken") << 13000 << 802 << 0
                                << QByteArray("device cuda:0 is not available: the NVIDIA driver (CUDA 13.0) does not "
                                              "start: text of 802");
        QTest::newRow("out of range") << 13000 << 0 << 2
                                      << QByteArray("device cuda:2 does not exist: found 2 devices, the last is "
                                                    "cuda:1");
        QTest::newRow("old GPU") << 13000 << 0 << 1
                                 << QByteArray("device cuda:1 (T4) cannot be used: its compute capability is 7.5, "
                                               "wanted at least 8.0");
    }

    void saysWhyThereIsNoDevice()
    {
        QFETCH(int, version);
        QFETCH(int, countError);
        QFETCH(int, index);
        QFETCH(QByteArray, wanted);
        Script script;
        script.version = version;
        script.countError = countError;
        QCOMPARE(messageOf([&] { (void)open(script, index); }, ErrorCode::NoDevice), wanted.toStdString());
    }

    void someDevicesMayBeUnusable()
    {
        Script script;
        ScriptedDriver driver(script);
        const FoundDevices found = findDevices(driver);
        QCOMPARE(found.problem, std::string());
        QCOMPARE(found.driver, std::string("CUDA 13.0"));
        QCOMPARE(found.devices.size(), std::size_t(2));
        QVERIFY(found.devices[0].problem.empty() && !found.devices[1].problem.empty());
        QCOMPARE(open(script)->name(), std::string_view("sm_90"));
        script.useError = 46;
        QVERIFY(
            messageOf([&] { (void)open(script); }, ErrorCode::NoDevice)
                .starts_with("device cuda:0 (H200) cannot be used: device cuda:0 failed in being opened: text of 46"));
    }

    void memoryComesZeroedAndGoesBack()
    {
        Script script;
        {
            const auto runtime = open(script);
            const auto device = runtime->allocate(1000);
            const auto pinned = runtime->allocatePinned(16);
            for (std::size_t i = 0; i < 1000; ++i)
                QCOMPARE(device->data()[i], std::byte{});
            QCOMPARE(pinned->data()[15], std::byte{});
            QCOMPARE(runtime->freeBytes(), std::size_t(4096));
            const StreamHandle stream = runtime->makeStream();
            pinned->data()[3] = std::byte{9};
            runtime->copy(pinned->data(), device->data(), 16, stream);
            runtime->synchronize(stream);
            QCOMPARE(device->data()[3], std::byte{9});
            runtime->copyNow(nullptr, nullptr, 0);
            runtime->destroyStream(stream);
            QCOMPARE(script.open, 2);
        }
        QCOMPARE(script.open, 0);
    }

    /// Every call in turn fails with an error of every kind.
    void errorsKeepTheirKind()
    {
        for (const int error : {2, 1, 701, 700, 719, 214}) {
            for (int call = 1; call <= 9; ++call) {
                Script script;
                const auto runtime = open(script);
                script.failingCall = call;
                script.error = error;
                script.stays = error >= 702 || error == 700 || error == 214;
                bool failed = false;
                try {
                    const auto buffer = runtime->allocate(64);
                    const auto pinned = runtime->allocatePinned(64);
                    const StreamHandle stream = runtime->makeStream();
                    runtime->copy(pinned->data(), buffer->data(), 64, stream);
                    runtime->synchronize(stream);
                    runtime->copyNow(buffer->data(), pinned->data(), 64);
                } catch (const DeviceLost &lost) {
                    failed = true;
                    QVERIFY(script.stays);
                    QVERIFY(std::string(lost.what()).starts_with("device cuda:0 was lost in "));
                } catch (const Error &fault) {
                    failed = true;
                    QVERIFY(!script.stays);
                    QCOMPARE(fault.code(), error == 2 ? ErrorCode::OutOfMemory : ErrorCode::Internal);
                    QVERIFY2(std::string(fault.what()).find("cuda:0") != std::string::npos, fault.what());
                }
                QCOMPARE(failed, call <= 8);
                if (script.stays && failed)
                    QVERIFY_THROWS_EXCEPTION(DeviceLost, runtime->checkDevice());
                else
                    runtime->checkDevice();
            }
        }
    }

    void peerCopies()
    {
        Script script;
        ScriptedDriver driver(script);
        const std::vector<PeerCopy> copies = tryPeerCopies(driver, {0, 1, 2}, 4096);
        QCOMPARE(copies.size(), std::size_t(6));
        QCOMPARE(copies[0].from, 0);
        QCOMPARE(copies[0].to, 1);
        QCOMPARE(copies[5].from, 2);
        QCOMPARE(copies[5].to, 1);
        for (const PeerCopy &copy : copies) {
            QCOMPARE(copy.problem, std::string());
            QCOMPARE(copy.direct, copy.from + copy.to == 1);
            QVERIFY(copy.gbps > 0);
        }
        QCOMPARE(script.reached, (std::vector<int>{1, 10}));
        QCOMPARE(script.open, 0);
        QVERIFY(tryPeerCopies(driver, {0}, 4096).empty());
    }

    /// Every call fails once: the pair says so, the others go on, nothing stays open.
    void peerCopiesThatFail()
    {
        for (int call = 1; call < 40; ++call) {
            Script script;
            script.failingCall = call;
            script.error = 217;
            ScriptedDriver driver(script);
            const std::vector<PeerCopy> copies = tryPeerCopies(driver, {0, 1}, 4096);
            QCOMPARE(script.open, 0);
            const bool failed = script.failingCall < 0;
            QCOMPARE(copies[0].problem.empty() && copies[1].problem.empty(), !failed);
            if (failed)
                QVERIFY((copies[0].problem + copies[1].problem).ends_with("text of 217"));
            if (call == 39)
                QVERIFY(!failed);
        }
        Script script;
        script.losesBytes = true;
        ScriptedDriver driver(script);
        QCOMPARE(tryPeerCopies(driver, {0, 1}, 4096)[0].problem,
                 std::string("byte 2048 of 4096 did not arrive as it was sent"));
    }

    void stepsAreCapturedOnce()
    {
        using Calls = std::vector<std::string>;
        Script script;
        {
            const auto runtime = open(script);
            Steps steps(*runtime);
            const int open = script.open;
            const auto callsOf = [&](int first, int rows) {
                script.calls.clear();
                return steps.run(first, rows) == wantedOf(first, rows) ? script.calls : Calls{"other numbers"};
            };
            const Calls captured{"beginCapture", "captured copy", "captured copy", "endCapture",
                                 "instantiate",  "destroyGraph",  "synchronize"};
            Calls wanted{"copy", "copy", "copy", "copy"}; // inputs, the table, and the step itself
            wanted.insert(wanted.end(), captured.begin(), captured.end());
            QCOMPARE(callsOf(10, 4), wanted);
            const Calls replayed{"copy", "launchGraph", "synchronize"};
            QCOMPARE(callsOf(20, 4), replayed);
            wanted.erase(wanted.begin()); // the table is there
            QCOMPARE(callsOf(30, 3), wanted);
            QCOMPARE(callsOf(40, 3), replayed);
            QCOMPARE(callsOf(50, 4), replayed);
            QCOMPARE(script.open, open + 2);
            QCOMPARE(callsOf(60, 100), (Calls{"copy", "copy", "copy", "copy", "synchronize"})); // larger than planned
            QVERIFY(steps.stream.capturesSteps() && steps.stream.takeCaptureFault().empty());
            const int before = script.open;
            steps.stream.forgetSteps();
            QCOMPARE(script.open, before - 2);
            QCOMPARE(callsOf(70, 3), wanted);
        }
        QCOMPARE(script.open, 0);
    }

    /// As many as StepGraphs keeps; the one that was used last is the last to go.
    void oldGraphsGo()
    {
        Script script;
        const auto runtime = open(script);
        Steps steps(*runtime);
        const std::array<std::span<const std::byte>, 0> none{};
        const auto isReplayed = [&](int variant) {
            int called = 0;
            steps.stream.runStep({1, 1, variant}, none, [&] { ++called; });
            return called == 0;
        };
        const int most = static_cast<int>(StepGraphs::most);
        const int open = script.open;
        for (int i = 0; i < most; ++i)
            QVERIFY(!isReplayed(i));
        QCOMPARE(script.open, open + most);
        QVERIFY(isReplayed(0));
        QVERIFY(!isReplayed(most));
        QCOMPARE(script.open, open + most);
        QVERIFY(isReplayed(0) && isReplayed(2) && isReplayed(most));
        QVERIFY(!isReplayed(1));
    }

    /// Every call of two steps in turn fails with an error of every kind: the same numbers come out, or an error of
    /// that kind; what is not captured is said once, and nothing stays open.
    void captureMayFailAtEveryCall()
    {
        for (const int error : {2, 1, 900, 700, 999}) {
            int refused = 0;
            for (int call = 1;; ++call) {
                Script script;
                script.error = error;
                script.stays = error == 700 || error == 999;
                bool failed = false;
                {
                    const auto runtime = open(script);
                    Steps steps(*runtime);
                    script.failingCall = call;
                    const auto run = [&](int first) {
                        try {
                            QCOMPARE(steps.run(first, 4), wantedOf(first, 4));
                        } catch (const DeviceLost &) {
                            failed = true;
                            QVERIFY(script.stays);
                        } catch (const Error &fault) {
                            failed = true;
                            QVERIFY(!script.stays);
                            QCOMPARE(fault.code(), error == 2 ? ErrorCode::OutOfMemory : ErrorCode::Internal);
                            steps.stream.synchronize();
                        }
                    };
                    run(10);
                    run(20);
                    if (script.failingCall > 0)
                        script.failingCall = 0;
                    const std::string told = steps.stream.takeCaptureFault();
                    QVERIFY(steps.stream.takeCaptureFault().empty());
                    QCOMPARE(steps.stream.capturesSteps(), told.empty());
                    if (!told.empty()) {
                        ++refused;
                        QVERIFY(!failed && !script.stays);
                        QVERIFY2(told.find("text of " + std::to_string(error)) != std::string::npos || error == 2,
                                 told.c_str());
                        script.calls.clear();
                        run(30);
                        QVERIFY(std::ranges::find(script.calls, "beginCapture") == script.calls.end());
                    }
                    if (!failed && script.failingCall == 0 && told.empty()) {
                        QVERIFY(call > 13);
                        break;
                    }
                    if (!script.stays && failed)
                        run(40);
                }
                QCOMPARE(script.open, 0);
            }
            // Of these calls: begin, two copies, end, instantiate, and the launch.
            QCOMPARE(refused, error == 700 || error == 999 ? 0 : 6);
        }
    }

    void namesOfDevices()
    {
        for (const char *name : {"cuda:0,cuda:1", "cuda:0"})
            if (std::string(name).size() > 6 || !listGpus().problem.empty())
                QVERIFY(messageOf([&] { requireGpu(name); }, ErrorCode::NoDevice).find(name) != std::string::npos);
        for (const char *name : {"cuda:", "cuda:x", "cuda:-1", "gpu"})
            QVERIFY(messageOf([&] { requireGpu(name); }, ErrorCode::InvalidArgument).find(name) != std::string::npos);
    }
};

QTEST_GUILESS_MAIN(TestGpuRuntime)
#include "tst_gpu_runtime.moc"
