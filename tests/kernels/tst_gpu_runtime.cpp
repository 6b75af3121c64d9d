// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/peer_copies.h"
#include "kernels/cuda/runtime_device.h"
#include "kernels/device_lost.h"
#include "kernels/gpus.h"

#include <QTest>

#include <cstdlib>
#include <cstring>

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
    int open = 0;             ///< buffers and streams
    std::vector<int> reached; ///< devices, in turn
    bool losesBytes = false;  ///< in copies between devices
};

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
    int synchronize(StreamHandle) override { return fault(); }
    int synchronizeDevice() override { return fault(); }
    int copy(const void *from, void *to, std::size_t bytes, StreamHandle) override { return copyNow(from, to, bytes); }
    int copyNow(const void *from, void *to, std::size_t bytes) override
    {
        const int error = fault();
        if (error == 0)
            std::memcpy(to, from, bytes);
        if (error == 0 && m_script.losesBytes)
            static_cast<char *>(to)[2050] ^= 1;
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
};

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
