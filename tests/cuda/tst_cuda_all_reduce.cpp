// SPDX-License-Identifier: GPL-3.0-or-later
// Sums over several emulated devices, whose blocks all run at the same time.
#include "kernels/cuda/all_reduce.cuh"
#include "tests/cuda/device_rig.h"
#include "tests/support/kernel_data.h"

#include <QTest>

#include <algorithm>

using namespace kernels::cuda;
using device_rig::DeviceArray;
using simt::Emulator;

namespace {

/// Several calls within one kernel, so that fast blocks run ahead of slow ones.
__global__ void callsKernel(AllReduce a, float *inout, int stride, int count, int calls)
{
    for (int call = 0; call < calls; ++call) {
        reduceShare(a, inout + call * stride, count);
        __syncthreads();
    }
}

/// Devices that see each other's memory.
class Devices {
public:
    Devices(int devices, int capacity)
        : m_buffers(static_cast<std::size_t>(devices))
        , m_flags(static_cast<std::size_t>(devices))
    {
        const auto flagCount = static_cast<std::size_t>(allReduceBlocks * devices);
        for (int d = 0; d < devices; ++d) {
            const auto index = static_cast<std::size_t>(d);
            m_memory.push_back(std::make_unique<DeviceArray<float>>(static_cast<std::size_t>(2 * capacity)));
            m_flagMemory.push_back(std::make_unique<DeviceArray<std::uint32_t>>(std::vector<std::uint32_t>(flagCount)));
            m_calls.push_back(
                std::make_unique<DeviceArray<std::uint32_t>>(std::vector<std::uint32_t>(allReduceBlocks)));
            m_buffers[index] = m_memory.back()->data();
            m_flags[index] = m_flagMemory.back()->data();
            m_devices.push_back({m_buffers.data(), m_flags.data(), m_calls.back()->data(), capacity, d, devices});
        }
    }
    [[nodiscard]] const AllReduce &device(int d) const { return m_devices[static_cast<std::size_t>(d)]; }
    [[nodiscard]] bool intact() const
    {
        bool intact = true;
        for (std::size_t d = 0; d < m_memory.size(); ++d)
            intact = intact && m_memory[d]->bordersIntact() && m_flagMemory[d]->bordersIntact()
                && m_calls[d]->bordersIntact();
        return intact;
    }

private:
    DeviceArray<float *> m_buffers;
    DeviceArray<std::uint32_t *> m_flags;
    std::vector<std::unique_ptr<DeviceArray<float>>> m_memory;
    std::vector<std::unique_ptr<DeviceArray<std::uint32_t>>> m_flagMemory;
    std::vector<std::unique_ptr<DeviceArray<std::uint32_t>>> m_calls;
    std::vector<AllReduce> m_devices;
};

/// What every device holds before a call.
std::vector<std::vector<float>> messages(int devices, int count, std::uint32_t seed)
{
    std::vector<std::vector<float>> all;
    for (int d = 0; d < devices; ++d)
        all.push_back(kernel_data::randomFloats(static_cast<std::size_t>(count), seed + static_cast<unsigned>(d)));
    return all;
}

std::vector<float> sumOf(const std::vector<std::vector<float>> &all)
{
    std::vector<float> sum(all[0].size(), 0.0F);
    for (const std::vector<float> &one : all)
        for (std::size_t i = 0; i < sum.size(); ++i)
            sum[i] += one[i];
    return sum;
}

/// Blocks of a launch. TSan knows of some 8,000 threads at most, and maps six pieces of memory for each beside our two:
/// of four devices it gets the blocks that have a share, and not those that wait for one another alone.
unsigned blocksFor(int devices, int count)
{
    return static_cast<unsigned>(device_rig::thinned() && devices == 4 ? std::min(count, allReduceBlocks)
                                                                       : allReduceBlocks);
}

} // namespace

class TestCudaAllReduce : public QObject {
    Q_OBJECT

private slots:
    void sums_data();
    void sums();
    void fastDevicesWaitForSlowOnes();
};

void TestCudaAllReduce::sums_data()
{
    QTest::addColumn<int>("devices");
    QTest::addColumn<int>("count");
    const auto add = [](int devices, int count) {
        QTest::addRow("%d devices, %d numbers", devices, count) << devices << count;
    };
    if (device_rig::smallOnly())
        return add(2, 33);
    for (const int devices : {1, 2, 3, 4})
        for (const int count : {1, 8, 33, 1000})
            if (!device_rig::thinned() || (devices == 4 ? count == 8 : devices == 2 || count == 33))
                add(devices, count);
}

void TestCudaAllReduce::sums()
{
    QFETCH(int, devices);
    QFETCH(int, count);
    const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) -> std::string {
        const Devices all(devices, 1000);
        for (std::uint32_t call = 0; call < 3; ++call) {
            const auto before = messages(devices, count, 10 * call);
            std::vector<std::unique_ptr<DeviceArray<float>>> inout;
            std::vector<simt::Launch> launches;
            for (int d = 0; d < devices; ++d) {
                inout.push_back(std::make_unique<DeviceArray<float>>(before[static_cast<std::size_t>(d)]));
                launches.push_back(simt::bind(allReduceKernel, dim3(blocksFor(devices, count)), dim3(allReduceThreads),
                                              0, all.device(d), inout.back()->data(), count));
            }
            Emulator::of(stream).run(launches, true);
            const std::vector<float> wanted = sumOf(before);
            for (const auto &found : inout)
                if (!found->equals(wanted) || !found->bordersIntact() || !all.intact())
                    return "call " + std::to_string(call) + " has another sum";
        }
        return {};
    });
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestCudaAllReduce::fastDevicesWaitForSlowOnes()
{
    const int calls = device_rig::smallOnly() ? 3 : 6;
    constexpr int devices = 3;
    constexpr int count = 70;
    std::vector<std::vector<std::vector<float>>> before;
    for (int call = 0; call < calls; ++call)
        before.push_back(messages(devices, count, 100 * static_cast<unsigned>(call)));
    const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) -> std::string {
        const Devices all(devices, count);
        std::vector<std::unique_ptr<DeviceArray<float>>> inout;
        std::vector<simt::Launch> launches;
        for (std::size_t d = 0; d < devices; ++d) {
            std::vector<float> own;
            for (const auto &call : before)
                own.insert(own.end(), call[d].begin(), call[d].end());
            inout.push_back(std::make_unique<DeviceArray<float>>(own));
            launches.push_back(simt::bind(callsKernel, dim3(allReduceBlocks), dim3(allReduceThreads), 0,
                                          all.device(static_cast<int>(d)), inout.back()->data(), count, count, calls));
        }
        Emulator::of(stream).run(launches, true);
        std::vector<float> wanted;
        for (const auto &call : before) {
            const std::vector<float> sum = sumOf(call);
            wanted.insert(wanted.end(), sum.begin(), sum.end());
        }
        for (const auto &found : inout)
            if (!found->equals(wanted))
                return "a sum is another";
        return all.intact() ? "" : "something was written outside of the buffers";
    });
    QVERIFY2(wrong.empty(), wrong.c_str());
}

QTEST_GUILESS_MAIN(TestCudaAllReduce)
#include "tst_cuda_all_reduce.moc"
