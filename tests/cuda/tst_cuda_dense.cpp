// SPDX-License-Identifier: GPL-3.0-or-later
// Products of many rows by cuBLASLt, which a stand-in plays, on the emulated device.
#include "kernels/cuda/dense_products.h"
#include "kernels/cuda/runtime.h"
#include "kernels/shared_library.h"
#include "tests/cuda/device_rig.h"
#include "tests/cuda/watched_runtime.h"
#include "tests/support/float_view.h"
#include "tests/support/kernel_data.h"
#include "tests/support/shared_data.h"

#include <QTest>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <map>
#include <span>

using namespace kernels;
using kernel_data::viewOf;
using kernel_data::Weight;

namespace {

/// A function of the stand-in besides those of cuBLASLt, called; what it sets stays while somebody has the library
/// open.
template<typename Function, typename... Arguments> auto callFake(const char *name, Arguments... arguments)
{
    kernels::SharedLibrary library;
    const std::string path = FAKE_CUBLASLT;
    Function *function = nullptr;
    if (!library.open("the stand-in", {&path, 1}, {{name, function}}))
        qFatal("%s", library.problem().c_str());
    return function(arguments...);
}

/// Calls of the stand-in that count something.
int countOf(const char *function)
{
    return callFake<int()>(function);
}

/// Products become launches of one thread, so that they take part in what is captured.
void queueOnDevice(void *stream, const std::function<void()> &work)
{
    simt::Launch launch;
    launch.grid = launch.block = dim3(1, 1, 1);
    launch.body = work;
    simt::Emulator::of(static_cast<cudaStream_t>(stream)).run({launch}, false);
}

/// The library faster from 128 rows on.
double fastFrom128(int rows, bool dense)
{
    return dense ? 1.0 : rows / 100.0;
}

int columnsOf()
{
    return device_rig::smallOnly() ? 64 : 256;
}

/// Notes are for `notes`, where there is one.
std::unique_ptr<Ops> opsWith(const std::string &library, std::vector<std::string> *notes = nullptr,
                             const cuda::ProductTimer &seconds = fastFrom128,
                             std::unique_ptr<cuda::Runtime> runtime = cuda::makeSimtRuntime({}))
{
    return cuda::makeCudaOps(
        std::move(runtime),
        {true, {"libthere-is-none.so", library}, seconds, 16 * columnsOf() * 2, notes}); // 16 features a piece
}

std::vector<float> linearOf(Ops &ops, const std::vector<WeightPart> &parts, const std::vector<float> &x, int rows,
                            const float *bias, bool add)
{
    const auto weight = ops.pack(parts);
    const std::int64_t features = weight->rows();
    std::vector<float> input = x;
    std::vector<float> out(static_cast<std::size_t>(rows * features), 0.5F);
    const auto stream = ops.makeStream();
    const TensorView in = viewOf(input, rows, weight->columns());
    const TensorView target = viewOf(out, rows, features);
    if (add)
        ops.linearAdd(*weight, in, target, bias, *stream);
    else
        ops.linear(*weight, in, target, bias, *stream);
    stream->synchronize();
    return out;
}

} // namespace

class TestCudaDense : public QObject {
    Q_OBJECT

private slots:
    void cleanup() { unsetenv("FAKE_CUBLASLT_STATUS"); }
    void choosesFromTimes();
    void sameProducts_data();
    void sameProducts();
    void fewRowsStayWithTheKernels();
    void insideACapturedStep();
    void goesOnWithoutTheLibrary();
};

void TestCudaDense::choosesFromTimes()
{
    const auto times = [](int rowsWhereFaster, int slowAgainAt) {
        return cuda::fasterFromRows([=](int rows, bool dense) {
            return dense && (rows < rowsWhereFaster || rows == slowAgainAt) ? 2.0 : dense ? 0.5 : 1.0;
        });
    };
    QCOMPARE(times(1, 0), 64);
    QCOMPARE(times(300, 0), 512);
    QCOMPARE(times(1, 1024), 2048); // not from 64 on
    QCOMPARE(times(5000, 0), 0);
    QCOMPARE(cuda::fasterFromRows([](int, bool) { return 1.0; }), 0);
}

void TestCudaDense::sameProducts_data()
{
    QTest::addColumn<int>("type");
    for (const DType type : {DType::Q4_0, DType::Q8_0, DType::Q4_K, DType::Q6_K, DType::F16, DType::INT4, DType::NF4})
        if (shared_data::fullTier() || type == DType::Q4_0 || type == DType::Q4_K)
            QTest::addRow("%s", info(type).name.data()) << int(type);
}

/// Two parts, one of them of bfloat16, which the kernels multiply; bias and sums.
void TestCudaDense::sameProducts()
{
    QFETCH(int, type);
    if (device_rig::smallOnly())
        QSKIP("of the full tier (LATHE_TEST_TIER=full) under TSan; insideACapturedStep launches the same kernels");
    constexpr int rows = 128;
    const int columns = columnsOf();
    const Weight first = kernel_data::randomWeight(static_cast<DType>(type), 40, columns, 1);
    const Weight second = kernel_data::randomWeight(DType::BF16, 10, columns, 2);
    const std::vector<float> x = kernel_data::randomFloats(rows * columns, 3);
    const std::vector<float> bias = kernel_data::randomFloats(50, 4);
    const std::vector<WeightPart> parts{first.part("first"), second.part("second")};
    const auto kernelsAlone = cuda::makeCudaOps(cuda::makeSimtRuntime({}));
    std::vector<std::string> notes;
    const auto ops = opsWith(FAKE_CUBLASLT, &notes);
    for (const bool add : {false, true}) {
        const int before = countOf("fakeCublasLtProducts");
        const std::vector<float> found = linearOf(*ops, parts, x, rows, bias.data(), add);
        QCOMPARE(countOf("fakeCublasLtProducts"), before + 3); // pieces of 40 features
        const std::vector<float> wanted = linearOf(*kernelsAlone, parts, x, rows, bias.data(), add);
        const std::string wrong = device_rig::compareRows(found, wanted, 50, 1e-11); // the order of sums alone
        QVERIFY2(wrong.empty(), wrong.c_str());
    }
    QCOMPARE(countOf("fakeCublasLtOpen"), 0);
    QCOMPARE(notes, std::vector<std::string>{"products of 128 rows and more are computed by " FAKE_CUBLASLT});
    QVERIFY(!ops->deterministic());
    QVERIFY(kernelsAlone->deterministic());
}

void TestCudaDense::fewRowsStayWithTheKernels()
{
    constexpr int rows = 20;
    const Weight weight = kernel_data::randomWeight(DType::Q8_0, 40, 64, 1);
    const std::vector<float> x = kernel_data::randomFloats(rows * 64, 3);
    const auto kernelsAlone = cuda::makeCudaOps(cuda::makeSimtRuntime({}));
    const auto ops = opsWith(FAKE_CUBLASLT);
    const int before = countOf("fakeCublasLtProducts");
    const std::string wrong =
        device_rig::compareBits(linearOf(*ops, {weight.part()}, x, rows, nullptr, false),
                                linearOf(*kernelsAlone, {weight.part()}, x, rows, nullptr, false));
    QVERIFY2(wrong.empty(), wrong.c_str());
    QCOMPARE(countOf("fakeCublasLtProducts"), before);
}

/// A step is captured with its products: from its second time on they are done again with what is in memory by then.
void TestCudaDense::insideACapturedStep()
{
    using Call = WatchedRuntime::Call;
    constexpr int rows = 64;
    constexpr int features = 24;
    constexpr int pieces = 2;
    const int columns = columnsOf();
    const auto always = [](int, bool dense) { return dense ? 1.0 : 2.0; };
    std::map<Call, int> calls;
    WatchedRuntime::Watch watch;
    watch.before = [&](Call call) { ++calls[call]; };
    const auto ops = opsWith(FAKE_CUBLASLT, nullptr, always,
                             std::make_unique<WatchedRuntime>(cuda::makeSimtRuntime({}), std::move(watch)));
    callFake<void(decltype(&queueOnDevice))>("fakeCublasLtQueueWith", &queueOnDevice);
    const auto kernelsAlone = cuda::makeCudaOps(cuda::makeSimtRuntime({}));
    const Weight weight = kernel_data::randomWeight(DType::Q4_0, features, columns, 1);
    const std::vector<float> bias = kernel_data::randomFloats(features, 4);
    const auto packed = ops->pack(std::array{weight.part()});
    std::vector<float> x(static_cast<std::size_t>(rows * columns));
    std::vector<float> out(rows * features);
    const auto stream = ops->makeStream();
    const std::array<int, 1> numbers{}; // a step without inputs is not captured
    const std::array<std::span<const std::byte>, 1> inputs{std::as_bytes(std::span(numbers))};
    const auto step = [&] {
        stream->runStep({rows, 1, 0}, inputs, [&] {
            ops->linear(*packed, viewOf(x, rows, columns), viewOf(out, rows, features), bias.data(), *stream);
        });
    };
    (void)stream->plan(true);
    step();
    (void)stream->plan(false);
    const int allocated = calls[Call::Allocate];
    const int before = countOf("fakeCublasLtProducts");
    for (int i = 0; i < 2; ++i) {
        std::ranges::copy(kernel_data::randomFloats(x.size(), static_cast<std::uint32_t>(10 + i)), x.begin());
        step();
        stream->synchronize();
        QCOMPARE(countOf("fakeCublasLtProducts"), before + (i + 1) * pieces);
        if (i == 0 && device_rig::smallOnly())
            continue; // the replayed step alone, as the kernels take half a minute there
        const std::string wrong = device_rig::compareRows(
            out, linearOf(*kernelsAlone, {weight.part()}, x, rows, bias.data(), false), features, 1e-11);
        QVERIFY2(wrong.empty(), wrong.c_str());
    }
    QCOMPARE(stream->takeCaptureFault(), std::string());
    QCOMPARE(calls[Call::EndCapture], 1);
    QCOMPARE(calls[Call::LaunchGraph], 1);
    QCOMPARE(calls[Call::Allocate], allocated);
    QCOMPARE(countOf("fakeCublasLtOpen"), 0);
}

/// No library, another one, one that does not start, one that is no faster: the kernels do it all, and say why.
void TestCudaDense::goesOnWithoutTheLibrary()
{
    const auto expect = [](const std::string &library, const std::string &why,
                           const cuda::ProductTimer &seconds = fastFrom128) {
        std::vector<std::string> notes;
        QVERIFY(opsWith(library, &notes, seconds)->deterministic());
        QCOMPARE(notes, std::vector<std::string>{why});
    };
    const std::string absent = ": cannot open shared object file: No such file or directory";
    expect("libnor-this.so", "cuBLASLt was not found: libthere-is-none.so" + absent + "; libnor-this.so" + absent);
    expect("libm.so.6",
           "cuBLASLt cannot be used: libm.so.6 has no cublasLtCreate, cublasLtDestroy, cublasLtMatmulDescCreate, "
           "cublasLtMatmulDescSetAttribute, cublasLtMatmulDescDestroy, cublasLtMatrixLayoutCreate, "
           "cublasLtMatrixLayoutDestroy, cublasLtMatmulPreferenceCreate, cublasLtMatmulPreferenceSetAttribute, "
           "cublasLtMatmulPreferenceDestroy, cublasLtMatmulAlgoGetHeuristic, cublasLtMatmul");
    expect(FAKE_CUBLASLT, FAKE_CUBLASLT " is no faster than Lathe's kernels and is not used",
           [](int, bool dense) { return dense ? 2.0 : 1.0; });
    setenv("FAKE_CUBLASLT_STATUS", "1", 1); // CUBLAS_STATUS_NOT_INITIALIZED: no driver
    expect(FAKE_CUBLASLT, FAKE_CUBLASLT " did not start: status 1");
}

QTEST_GUILESS_MAIN(TestCudaDense)
#include "tst_cuda_dense.moc"
