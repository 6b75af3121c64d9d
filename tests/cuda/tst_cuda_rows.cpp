// SPDX-License-Identifier: GPL-3.0-or-later
// Operations on rows in the emulator, against ReferenceOps: norms, rotary embedding, activations, moves, and the stored
// form of keys and values.
#include "kernels/ops.h"
#include "tests/cuda/device_rig.h"
#include "tests/support/kernel_data.h"
#include "tests/support/tolerance.h"

#include <QTest>

#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

using namespace kernels;
using namespace kernels::cuda;
using device_rig::DeviceArray;
using device_rig::Rows;

namespace {

/// Rows, and heads of them; odd widths on both sides of a warp's and a block's.
struct Shape {
    int rows;
    int columns;
    int perGroup;
};

constexpr Shape shapes[] = {{1, 1, 1},  {3, 31, 1},  {7, 33, 1},  {2, 127, 1}, {5, 129, 1},
                            {6, 64, 3}, {4, 300, 2}, {9, 256, 3}, {2, 257, 1}, {3, 1100, 1}};

void addShapes()
{
    QTest::addColumn<int>("rows");
    QTest::addColumn<int>("columns");
    QTest::addColumn<int>("perGroup");
    for (const Shape &shape : shapes)
        if (!device_rig::smallOnly() || shape.columns == 31 || shape.columns == 257)
            QTest::addRow("%dx%d by %d", shape.rows, shape.columns, shape.perGroup)
                << shape.rows << shape.columns << shape.perGroup;
}

std::vector<float> numbers(int rows, int columns, std::uint32_t seed)
{
    return kernel_data::randomFloats(static_cast<std::size_t>(rows * columns), seed);
}

/// What an operation does to rows, on the device and as it should.
struct Operation {
    const char *name;
    double limit = 0.0; ///< NMSE of a row; 0: the same bits
    std::function<void(const RowSpan &inout, StreamHandle stream)> launch;
    std::function<void(Ops &ops, TensorView inout, Stream &stream)> reference;
};

class TestRows {
public:
    TestRows()
        : m_ops(kernel_data::reference())
        , m_stream(m_ops->makeStream())
    {
    }

    /// Complaint about an operation on `start`, or nothing. The reference sees the rows as [rows, columns].
    std::string check(const Operation &operation, int columns, const std::vector<float> &start, int perGroup = 1)
    {
        const int rows = static_cast<int>(start.size()) / columns;
        std::vector<float> wanted = start;
        operation.reference(*m_ops, makeView(wanted.data(), DType::F32, rows, columns), *m_stream);
        return device_rig::underSchedules([&](StreamHandle stream) -> std::string {
            const Rows inout(rows, columns, start, {perGroup, 3, 5});
            operation.launch(inout.span(), stream);
            if (!inout.restIntact())
                return std::string(operation.name) + " wrote outside of the rows";
            const std::string wrong = operation.limit > 0.0
                ? device_rig::compareRows(inout.values(), wanted, columns, operation.limit)
                : device_rig::compareBits(inout.values(), wanted);
            return wrong.empty() ? wrong : std::string(operation.name) + ": " + wrong;
        });
    }

private:
    std::unique_ptr<Ops> m_ops;
    std::unique_ptr<Stream> m_stream;
};

TensorView viewOf(std::vector<float> &values, std::int64_t columns)
{
    return makeView(values.data(), DType::F32, static_cast<std::int64_t>(values.size()) / columns, columns);
}

constexpr Activation activations[] = {Activation::Silu, Activation::GeluTanh, Activation::GeluErf, Activation::Relu,
                                      Activation::SwigluClamped};

/// Stored rows of numbers of all sizes and of those that types cannot hold.
std::vector<float> oddNumbers(int rows, int columns)
{
    std::vector<float> x = numbers(rows, columns, 5);
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] *= std::ldexp(1.0F, static_cast<int>(i * 7 % 40) - 24);
    constexpr float inf = std::numeric_limits<float>::infinity();
    const float odd[] = {17.0F,
                         19.0F,
                         0.0F,
                         -0.0F,
                         448.0F,
                         464.0F,
                         -465.0F,
                         1e6F,
                         -1e6F,
                         65504.0F,
                         65520.0F,
                         3e38F,
                         1e-40F,
                         6e-8F,
                         3e-8F,
                         0.0625F,
                         0.0146F,
                         std::ldexp(1.0F, -6),
                         std::ldexp(1.5F, -10)};
    const auto row = static_cast<std::size_t>(columns);
    for (std::size_t i = 0; i < std::size(odd) && rows > 2; ++i)
        x[row + i % row] = odd[i];
    if (rows > 3)
        x[2 * row] = inf;
    if (rows > 4)
        x[3 * row + row / 2] = std::nanf("");
    if (rows > 5)
        std::fill_n(x.begin() + 4 * static_cast<std::ptrdiff_t>(row), row, 0.0F);
    if (rows > 6)
        x[5 * row] = -3e38F;
    return x;
}

} // namespace

class TestCudaRows : public QObject {
    Q_OBJECT

private slots:
    void elements_data() { addShapes(); }
    void elements();
    void gates_data() { addShapes(); }
    void gates();
    void gather();
    void norms_data() { addShapes(); }
    void norms();
    void normOfLargeNumbers();
    void rope_data();
    void rope();
    void kvStore_data();
    void kvStore();
    void copyBytes();

private:
    TestRows m_rows;
};

void TestCudaRows::elements()
{
    QFETCH(int, rows);
    QFETCH(int, columns);
    QFETCH(int, perGroup);
    const std::vector<float> x = numbers(rows, columns, 2);
    const std::vector<float> gate = numbers(rows, 1, 3);
    const Rows deviceX(rows, columns, x, {perGroup, 1, 2});
    const Rows deviceGate(rows, 1, gate, {perGroup, 4, 0});
    std::vector<float> hostX = x;
    std::vector<float> hostGate = gate;
    std::vector<Operation> operations{
        {"zero", 0.0, [](const RowSpan &y, StreamHandle s) { launchZero(y, s); },
         [](Ops &ops, TensorView y, Stream &s) { ops.zero(y, s); }},
        {"copy", 0.0, [&](const RowSpan &y, StreamHandle s) { launchCopy(deviceX.span(), y, s); },
         [&](Ops &ops, TensorView y, Stream &s) { ops.copy(viewOf(hostX, columns), y, s); }},
        {"add", 0.0, [&](const RowSpan &y, StreamHandle s) { launchAdd(deviceX.span(), y, s); },
         [&](Ops &ops, TensorView y, Stream &s) { ops.add(viewOf(hostX, columns), y, s); }},
        {"gatedAdd", tolerance::rowWise,
         [&](const RowSpan &y, StreamHandle s) { launchGatedAdd(deviceX.span(), deviceGate.span(), y, s); },
         [&](Ops &ops, TensorView y, Stream &s) { ops.gatedAdd(viewOf(hostX, columns), viewOf(hostGate, 1), y, s); }},
        {"scale", 0.0, [](const RowSpan &y, StreamHandle s) { launchScale(y, -3.3F, s); },
         [](Ops &ops, TensorView y, Stream &s) { ops.scale(y, -3.3F, s); }},
        {"clamp", 0.0, [](const RowSpan &y, StreamHandle s) { launchClamp(y, 2.0F, s); },
         [](Ops &ops, TensorView y, Stream &s) { ops.clamp(y, 2.0F, s); }},
        {"softCap", tolerance::rowWise, [](const RowSpan &y, StreamHandle s) { launchSoftCap(y, 2.5F, s); },
         [](Ops &ops, TensorView y, Stream &s) { ops.softCap(y, 2.5F, s); }},
    };
    for (const Activation activation : activations)
        if (activation != Activation::SwigluClamped)
            operations.push_back({"activate", tolerance::rowWise,
                                  [=](const RowSpan &y, StreamHandle s) { launchActivate(activation, y, s); },
                                  [=](Ops &ops, TensorView y, Stream &s) { ops.activate(activation, y, s); }});
    std::vector<float> start = numbers(rows, columns, 4);
    for (float &value : start)
        value *= 6.0F;
    for (const Operation &operation : operations) {
        const std::string wrong = m_rows.check(operation, columns, start, perGroup);
        QVERIFY2(wrong.empty(), wrong.c_str());
    }
    QVERIFY(deviceX.restIntact() && deviceX.values() == x && deviceGate.restIntact());
}

/// Gate and up stand side by side; the reference makes them with the identity as weights.
void TestCudaRows::gates()
{
    QFETCH(int, rows);
    QFETCH(int, columns);
    QFETCH(int, perGroup);
    if (columns > (device_rig::smallOnly() ? 100 : 300))
        return; // a square of weights for the reference
    std::vector<float> products = numbers(rows, 2 * columns, 2);
    for (float &value : products)
        value *= 9.0F;
    const std::int64_t width = 2 * std::int64_t{columns};
    std::vector<float> identity(static_cast<std::size_t>(width * width));
    for (std::int64_t i = 0; i < width; ++i)
        identity[static_cast<std::size_t>(i * width + i)] = 1.0F;
    const WeightPart half{"half", DType::F32, columns, width, reinterpret_cast<const std::byte *>(identity.data())};
    WeightPart other = half;
    other.data += static_cast<std::ptrdiff_t>(columns * width) * 4;
    const WeightPart parts[] = {half, other};
    const std::unique_ptr<PackedWeight> weight = kernel_data::reference()->pack(parts);
    const Rows deviceProducts(rows, 2 * columns, products, {perGroup, 1, 2});
    for (const Activation activation : activations) {
        const Operation operation{
            "gate", tolerance::rowWise,
            [&](const RowSpan &y, StreamHandle s) { launchGate(activation, deviceProducts.span(), y, s); },
            [&](Ops &ops, TensorView y, Stream &s) {
                ops.linearGated(*weight, activation, viewOf(products, width), y, nullptr, s);
            }};
        const std::string wrong = m_rows.check(operation, columns, numbers(rows, columns, 4), perGroup);
        QVERIFY2(wrong.empty(), wrong.c_str());
    }
    QVERIFY(deviceProducts.restIntact() && deviceProducts.values() == products);
}

void TestCudaRows::gather()
{
    std::vector<float> x = numbers(6, 130, 2);
    const std::vector<int> rows{5, 0, 5, 3};
    const Rows deviceX(6, 130, x);
    const DeviceArray<int> deviceRows(rows);
    const Operation operation{
        "gather", 0.0, [&](const RowSpan &y, StreamHandle s) { launchGather(deviceX.span(), deviceRows.data(), y, s); },
        [&](Ops &ops, TensorView y, Stream &s) { ops.gatherRows(viewOf(x, 130), rows, y, s); }};
    const std::string wrong = m_rows.check(operation, 130, numbers(4, 130, 3));
    QVERIFY2(wrong.empty(), wrong.c_str());
}

/// Each out of place and in place, with and without weights; sums must be the same under every schedule.
void TestCudaRows::norms()
{
    QFETCH(int, rows);
    QFETCH(int, columns);
    QFETCH(int, perGroup);
    const std::vector<float> weights = numbers(1, columns, 7);
    const std::vector<float> biases = numbers(1, columns, 8);
    const DeviceArray<float> deviceWeights(weights);
    const DeviceArray<float> deviceBiases(biases);
    std::vector<float> x = numbers(rows, columns, 2);
    for (float &value : x)
        value += 0.25F;
    const Rows deviceX(rows, columns, x, {perGroup, 1, 2});
    for (const bool weighted : {true, false}) {
        const float *w = weighted ? weights.data() : nullptr;
        const float *b = weighted ? biases.data() : nullptr;
        const float *deviceW = weighted ? deviceWeights.data() : nullptr;
        const float *deviceB = weighted ? deviceBiases.data() : nullptr;
        for (const bool inPlace : {false, true}) {
            const std::vector<float> start = inPlace ? x : numbers(rows, columns, 4);
            const auto input = [&, inPlace](TensorView y) { return inPlace ? y : viewOf(x, columns); };
            const auto from = [&, inPlace](const RowSpan &y) { return inPlace ? y : deviceX.span(); };
            const Operation rms{"rmsNorm", tolerance::rowWise,
                                [=](const RowSpan &y, StreamHandle s) { launchRmsNorm(from(y), deviceW, 1e-5F, y, s); },
                                [=](Ops &ops, TensorView y, Stream &s) { ops.rmsNorm(input(y), w, 1e-5F, y, s); }};
            const Operation layer{
                "layerNorm", tolerance::rowWise,
                [=](const RowSpan &y, StreamHandle s) { launchLayerNorm(from(y), deviceW, deviceB, 1e-5F, y, s); },
                [=](Ops &ops, TensorView y, Stream &s) { ops.layerNorm(input(y), w, b, 1e-5F, y, s); }};
            for (const Operation &operation : {rms, layer}) {
                const std::string wrong = m_rows.check(operation, columns, start, perGroup);
                QVERIFY2(wrong.empty(), wrong.c_str());
            }
        }
    }
    QVERIFY(deviceX.restIntact() && deviceX.values() == x);
}

/// Squares that no float holds, and a variance of nothing.
void TestCudaRows::normOfLargeNumbers()
{
    std::vector<float> x = numbers(3, 200, 2);
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = i < 200 ? x[i] * 1e25F : i < 400 ? x[i] * 1e-25F : 3.0F;
    for (const bool layer : {false, true}) {
        const Operation operation{layer ? "layerNorm" : "rmsNorm", tolerance::rowWise,
                                  [=](const RowSpan &y, StreamHandle s) {
                                      if (layer)
                                          launchLayerNorm(y, nullptr, nullptr, 1e-6F, y, s);
                                      else
                                          launchRmsNorm(y, nullptr, 1e-6F, y, s);
                                  },
                                  [=](Ops &ops, TensorView y, Stream &s) {
                                      if (layer)
                                          ops.layerNorm(y, nullptr, nullptr, 1e-6F, y, s);
                                      else
                                          ops.rmsNorm(y, nullptr, 1e-6F, y, s);
                                  }};
        const std::string wrong = m_rows.check(operation, 200, x);
        QVERIFY2(wrong.empty(), wrong.c_str());
    }
}

void TestCudaRows::rope_data()
{
    QTest::addColumn<int>("headDim");
    QTest::addColumn<int>("rotaryDim");
    QTest::addColumn<bool>("interleaved");
    QTest::addRow("whole heads, pairs of neighbours") << 64 << 64 << true;
    QTest::addRow("whole heads, pairs of halves") << 64 << 64 << false;
    QTest::addRow("part of a head, neighbours") << 40 << 10 << true;
    QTest::addRow("part of a head, halves") << 40 << 10 << false;
    QTest::addRow("wide heads") << 256 << 256 << false;
}

/// Positions up to 900,000 turn as exactly as the first.
void TestCudaRows::rope()
{
    QFETCH(int, headDim);
    QFETCH(int, rotaryDim);
    QFETCH(bool, interleaved);
    constexpr int heads = 3;
    const std::vector<int> positions{0, 1, 77, 900001};
    RopeTable table;
    table.rotaryDim = rotaryDim;
    table.interleaved = interleaved;
    table.attentionFactor = 1.1F;
    std::vector<double> turns;
    for (int i = 0; i < rotaryDim / 2; ++i) {
        table.inverseFrequencies.push_back(std::pow(10000.0, -2.0 * i / rotaryDim));
        turns.push_back(table.inverseFrequencies.back() / (2.0 * std::numbers::pi));
    }
    const DeviceArray<int> devicePositions(positions);
    const DeviceArray<double> deviceTurns(turns);
    const Operation operation{"rope", 2e-12,
                              [&](const RowSpan &y, StreamHandle s) {
                                  launchRope(
                                      y, {devicePositions.data(), deviceTurns.data(), rotaryDim, interleaved, 1.1F}, s);
                              },
                              [&](Ops &ops, TensorView y, Stream &s) {
                                  ops.rope(makeView(y.data, DType::F32, 4, heads, headDim), positions, table, s);
                              }};
    const std::string wrong = m_rows.check(operation, headDim, numbers(4 * heads, headDim, 2), heads);
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestCudaRows::kvStore_data()
{
    QTest::addColumn<int>("type");
    QTest::addColumn<int>("headDim");
    for (const DType type : {DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::E4M3})
        for (const int headDim : {36, 64, 128})
            if (!device_rig::smallOnly() || headDim == 36)
                QTest::addRow("%s %d", info(type).name.data(), headDim) << int(type) << headDim;
}

/// The bytes are those of the definition, and no other byte changes.
void TestCudaRows::kvStore()
{
    QFETCH(int, type);
    QFETCH(int, headDim);
    constexpr int heads = 3;
    constexpr int blocks = 4;
    constexpr int blockTokens = 8;
    const auto dtype = static_cast<DType>(type);
    const std::vector<int> places{9, 31, 0, 16, -1, 7, 17, 1}; // the fifth token is stored nowhere
    const std::vector<float> x = oddNumbers(static_cast<int>(places.size()) * heads, headDim);
    KvLayer layer{nullptr, dtype, dtype, blocks, heads, blockTokens, headDim, false};
    layer.blockStride = layer.blockBytes() + 48; // what lies between is another's
    std::vector<std::byte> wanted(blocks * layer.blockStride, std::byte{0xff});
    const std::vector<std::byte> before = wanted;
    layer.data = wanted.data();
    for (std::size_t row = 0; row < places.size() * heads; ++row) {
        const int slot = places[row / heads];
        if (slot < 0)
            continue;
        storeKvRow(dtype, x.data() + row * static_cast<std::size_t>(headDim), headDim,
                   layer.values(slot / blockTokens, static_cast<int>(row % heads))
                       + static_cast<std::size_t>(slot % blockTokens) * layer.valueRowBytes());
    }
    const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) -> std::string {
        const DeviceArray<std::byte> cache(before);
        const DeviceArray<int> deviceSlots(places);
        const Rows rows(static_cast<int>(places.size()) * heads, headDim, x, {heads, 1, 2});
        KvPlane plane;
        plane.data = cache.data() + (layer.values(0, 0) - layer.data);
        plane.type = dtype;
        plane.heads = heads;
        plane.blockTokens = blockTokens;
        plane.headDim = headDim;
        plane.blockStride = static_cast<std::int64_t>(layer.bytesToNextBlock());
        plane.rowBytes = static_cast<int>(layer.valueRowBytes());
        launchKvStore(rows.span(), deviceSlots.data(), plane, stream);
        if (!cache.bordersIntact())
            return "bytes beyond the cache were written";
        for (std::size_t i = 0; i < wanted.size(); ++i)
            if (cache[i] != wanted[i])
                return "byte " + std::to_string(i % layer.blockStride) + " of block "
                    + std::to_string(i / layer.blockStride) + " is " + std::to_string(int(cache[i])) + ", wanted "
                    + std::to_string(int(wanted[i]));
        return {};
    });
    QVERIFY2(wrong.empty(), wrong.c_str());
}

/// Of any size and from any place.
void TestCudaRows::copyBytes()
{
    std::vector<std::byte> from(20000);
    for (std::size_t i = 0; i < from.size(); ++i)
        from[i] = static_cast<std::byte>(i * 31 / 7);
    for (const std::size_t bytes : {17, 0, 1, 15, 16, 2049, 8192, 8207, 19000}) {
        if (device_rig::smallOnly() && bytes != 17)
            continue;
        for (const auto &[source, target] : {std::pair{0, 0}, {16, 32}, {3, 0}, {0, 5}, {7, 7}}) {
            const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) -> std::string {
                const DeviceArray<std::byte> deviceFrom(from);
                const DeviceArray<std::byte> to(bytes + static_cast<std::size_t>(target));
                const std::vector<std::byte> ahead(to.data(), to.data() + target);
                launchCopyBytes(deviceFrom.data() + source, to.data() + target, bytes, stream);
                const bool before = std::equal(ahead.begin(), ahead.end(), to.data());
                const bool same = std::memcmp(to.data() + target, from.data() + source, bytes) == 0;
                return same && before && to.bordersIntact() && deviceFrom.equals(from)
                    ? std::string()
                    : "a copy of " + std::to_string(bytes) + " bytes from " + std::to_string(source) + " to "
                        + std::to_string(target) + " is wrong";
            });
            QVERIFY2(wrong.empty(), wrong.c_str());
        }
    }
}

QTEST_GUILESS_MAIN(TestCudaRows)
#include "tst_cuda_rows.moc"
