// SPDX-License-Identifier: GPL-3.0-or-later
// Products of experts and of heads in the emulator, against the reference.
#include "kernels/cuda/launch_experts.h"
#include "tests/cuda/device_weight.h"
#include "tests/support/float_view.h"
#include "tests/support/tolerance.h"

#include <QTest>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

using namespace kernels;
using namespace kernels::cuda;
using device_rig::Cast;
using device_rig::DeviceArray;
using device_rig::DeviceWeight;
using device_rig::Rows;
using kernel_data::viewOf;
using kernel_data::Weight;

namespace {

std::size_t sizeOf(int rows, int columns)
{
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

/// Experts of one shape; every third of another type when there are two.
struct ExpertSet {
    int experts = 5;
    int columns = 64; ///< of gate and up
    int inner = 32;
    std::vector<DType> types{DType::F16};
};

/// A part of all experts on the device.
class DeviceExperts {
public:
    DeviceExperts(const std::vector<Weight> &weights, float factor)
    {
        std::vector<WeightView> views;
        for (const Weight &weight : weights) {
            const bool exact = weight.type == DType::F32 || weight.type == DType::BF16;
            m_weights.push_back(std::make_unique<DeviceWeight>(weight, exact ? 1.0F : factor));
            views.push_back(m_weights.back()->view());
        }
        m_views = std::make_unique<DeviceArray<WeightView>>(views);
        m_shape = {views[0].type, m_views->data(), views[0].rows, views[0].columns};
    }
    [[nodiscard]] ExpertWeights of(DType type) const
    {
        ExpertWeights weights = m_shape;
        weights.type = type;
        return weights;
    }

private:
    std::vector<std::unique_ptr<DeviceWeight>> m_weights;
    std::unique_ptr<DeviceArray<WeightView>> m_views;
    ExpertWeights m_shape;
};

/// Biases of all experts on the device.
class DeviceBiases {
public:
    explicit DeviceBiases(const std::vector<std::vector<float>> &biases)
    {
        std::vector<const float *> pointers;
        for (const std::vector<float> &bias : biases) {
            m_biases.push_back(std::make_unique<DeviceArray<float>>(bias));
            pointers.push_back(m_biases.back()->data());
        }
        m_pointers = std::make_unique<DeviceArray<const float *>>(pointers);
    }
    [[nodiscard]] const float *const *data() const { return m_biases.empty() ? nullptr : m_pointers->data(); }

private:
    std::vector<std::unique_ptr<DeviceArray<float>>> m_biases;
    std::unique_ptr<DeviceArray<const float *>> m_pointers;
};

/// Memory of RowGroups.
class Groups {
public:
    Groups(int rowCount, int experts, int tileRows)
        : m_rows(static_cast<std::size_t>(rowCount))
        , m_starts(static_cast<std::size_t>(experts + 1))
        , m_tiles(static_cast<std::size_t>(mostTiles(rowCount, experts, tileRows)))
    {
        m_groups = {m_rows.data(),
                    m_starts.data(),
                    m_tiles.data(),
                    rowCount,
                    experts,
                    tileRows,
                    static_cast<int>(m_tiles.size())};
    }
    [[nodiscard]] const RowGroups &groups() const { return m_groups; }
    [[nodiscard]] bool intact() const
    {
        return m_rows.bordersIntact() && m_starts.bordersIntact() && m_tiles.bordersIntact();
    }

private:
    DeviceArray<int> m_rows;
    DeviceArray<int> m_starts;
    DeviceArray<ExpertTile> m_tiles;
    RowGroups m_groups;
};

/// One part of all experts, on the host.
struct Part {
    std::vector<Weight> weights;
    std::vector<std::vector<float>> biases; ///< or empty

    static Part make(const ExpertSet &set, int rows, int columns, std::uint32_t seed, int biasOf)
    {
        Part part;
        for (int e = 0; e < set.experts; ++e) {
            const DType type = set.types[static_cast<std::size_t>(e % 3 == 1 ? set.types.size() - 1 : 0)];
            part.weights.push_back(kernel_data::randomWeight(type, rows, columns, seed + static_cast<unsigned>(e)));
            if (biasOf > 0)
                part.biases.push_back(
                    kernel_data::randomFloats(static_cast<std::size_t>(biasOf), seed + 77 + static_cast<unsigned>(e)));
        }
        return part;
    }
};

struct Step {
    ExpertSet set;
    int tokens = 3;
    int used = 2;
    bool bias = false;
    Activation activation = Activation::Silu;
};

std::vector<int> someIds(const Step &step)
{
    std::mt19937 random(9);
    std::vector<int> ids;
    std::vector<int> order(static_cast<std::size_t>(step.set.experts));
    for (int t = 0; t < step.tokens; ++t) {
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random);
        if (t % 2 == 1) // many of one expert
            std::swap(*std::find(order.begin(), order.end(), 1), order.front());
        ids.insert(ids.end(), order.begin(), order.begin() + step.used);
    }
    return ids;
}

/// Weights and inputs of a step through a layer's experts.
struct Layer {
    explicit Layer(const Step &step)
        : step(step)
        , gate(Part::make(step.set, step.set.inner, step.set.columns, 100, step.bias ? 2 * step.set.inner : 0))
        , up(Part::make(step.set, step.set.inner, step.set.columns, 200, 0))
        , down(Part::make(step.set, step.set.columns, step.set.inner, 300, step.bias ? step.set.columns : 0))
        , ids(someIds(step))
        , x(kernel_data::randomFloats(sizeOf(step.tokens, step.set.columns), 1))
        , weights(kernel_data::randomFloats(ids.size(), 2))
        , residual(kernel_data::randomFloats(x.size(), 3))
    {
    }
    Step step;
    Part gate, up, down; ///< gate's biases are those of gate and up
    std::vector<int> ids;
    std::vector<float> x, weights, residual;
};

struct Results {
    std::vector<float> inner;
    std::vector<float> out;
};

std::vector<const float *> pointersOf(const std::vector<std::vector<float>> &biases)
{
    std::vector<const float *> pointers;
    for (const std::vector<float> &bias : biases)
        pointers.push_back(bias.data());
    return pointers;
}

Results onReference(Layer layer)
{
    const Step &step = layer.step;
    const auto ops = kernel_data::reference();
    const auto stream = ops->makeStream();
    std::vector<std::unique_ptr<PackedWeight>> packed;
    std::vector<const PackedWeight *> gateUp, down;
    for (std::size_t e = 0; e < layer.gate.weights.size(); ++e) {
        const std::vector<WeightPart> pair{layer.gate.weights[e].part("gate"), layer.up.weights[e].part("up")};
        const WeightPart last = layer.down.weights[e].part("down");
        gateUp.push_back(packed.emplace_back(ops->pack(pair)).get());
        down.push_back(packed.emplace_back(ops->pack({&last, 1})).get());
    }
    Results results;
    const auto rows = static_cast<std::int64_t>(layer.ids.size());
    results.inner.resize(layer.ids.size() * static_cast<std::size_t>(step.set.inner));
    results.out = layer.residual;
    const TensorView ids = makeView(layer.ids.data(), DType::I32, step.tokens, step.used);
    ops->expertsGated(gateUp, step.activation, viewOf(layer.x, step.tokens, step.set.columns), ids,
                      pointersOf(layer.gate.biases), viewOf(results.inner, rows, step.set.inner), *stream);
    ops->expertsCombine(down, viewOf(results.inner, rows, step.set.inner), ids,
                        viewOf(layer.weights, step.tokens, step.used), pointersOf(layer.down.biases),
                        viewOf(results.out, step.tokens, step.set.columns), *stream);
    return results;
}

/// All types that a part's experts have.
void expertProducts(const ExpertSet &set, const DeviceExperts &experts, const Groups &groups, const RowSpan &x,
                    int rowsPerToken, const ExpertTarget &target, StreamHandle stream)
{
    for (std::size_t t = 0; t < set.types.size(); ++t) {
        const ExpertWeights weights = experts.of(set.types[t]);
        if (weights.type == DType::F32) {
            launchFloatExpertProducts(weights, groups.groups(), x, rowsPerToken, target, stream);
            continue;
        }
        const Cast cast(x, weights.columns, wantsBf16(weights.type), nullptr, stream);
        launchExpertProducts(weights, groups.groups(), cast.rows(), rowsPerToken, target, stream);
    }
}

/// Tokens [first, last) of the layer.
Results onDevice(const Layer &layer, int first, int last, int tileRows, StreamHandle stream, std::string &wrong)
{
    const Step &step = layer.step;
    const auto slice = [&](const auto &values, int columns) {
        return std::decay_t<decltype(values)>(values.begin() + static_cast<std::ptrdiff_t>(first) * columns,
                                              values.begin() + static_cast<std::ptrdiff_t>(last) * columns);
    };
    const int tokens = last - first;
    const DeviceExperts gate(layer.gate.weights, 2.0F);
    const DeviceExperts up(layer.up.weights, 4.0F);
    const DeviceExperts down(layer.down.weights, 2.0F);
    const DeviceBiases gateBiases(layer.gate.biases);
    const DeviceBiases downBiases(layer.down.biases);
    const DeviceArray<int> ids(slice(layer.ids, step.used));
    const Rows x(tokens, step.set.columns, slice(layer.x, step.set.columns));
    const Rows weights(tokens, step.used, slice(layer.weights, step.used));
    const Rows inout(tokens, step.set.columns, slice(layer.residual, step.set.columns));
    const int rows = tokens * step.used;
    const Groups groups(rows, step.set.experts, tileRows);
    launchGroupRows(ids.data(), groups.groups(), stream);
    const Rows products(rows, 2 * step.set.inner);
    expertProducts(step.set, gate, groups, x.span(), step.used, {products.span(), 0, gateBiases.data()}, stream);
    expertProducts(step.set, up, groups, x.span(), step.used, {products.span(), step.set.inner, gateBiases.data()},
                   stream);
    const Rows inner(rows, step.set.inner);
    launchGate(step.activation, products.span(), inner.span(), stream);
    const Rows outputs(rows, step.set.columns);
    expertProducts(step.set, down, groups, inner.span(), 1, {outputs.span(), 0, downBiases.data()}, stream);
    launchCombine(outputs.span(), ids.data(), weights.span(), inout.span(), stream);
    if (!groups.intact() || !products.restIntact() || !inner.restIntact() || !outputs.restIntact()
        || !inout.restIntact())
        wrong = "something was written outside of the results";
    return {inner.values(), inout.values()};
}

/// NMSE of a row of halves that meet halves; its sums may cancel.
double limitFor(const Step &step)
{
    return step.set.types[0] == DType::F32 && step.set.types.back() == DType::F32 ? 1e-11 : 4e-6;
}

} // namespace

class TestCudaExperts : public QObject {
    Q_OBJECT

private slots:
    void groupsRows_data();
    void groupsRows();
    void experts_data();
    void experts();
    void tokensDoNotDependOnNeighbours();
    void expertRowsAreProductsAsAnyOther();
    void combineGoesByAscendingExpert();
    void heads_data();
    void heads();
};

void TestCudaExperts::groupsRows_data()
{
    QTest::addColumn<int>("rows");
    QTest::addColumn<int>("experts");
    QTest::addColumn<int>("tileRows");
    for (const auto &[rows, experts, tileRows] :
         {std::tuple{1, 1, 16}, {2, 8, 16}, {33, 5, 16}, {64, 1, 64}, {200, 70, 16}, {515, 3, 64}, {130, 129, 64}})
        if (!device_rig::smallOnly() || rows == 33)
            QTest::addRow("%d rows, %d experts, tiles of %d", rows, experts, tileRows) << rows << experts << tileRows;
}

void TestCudaExperts::groupsRows()
{
    QFETCH(int, rows);
    QFETCH(int, experts);
    QFETCH(int, tileRows);
    std::mt19937 random(4);
    std::vector<int> ids(static_cast<std::size_t>(rows));
    for (int &id : ids) // uneven, the first and last experts often without rows
        id = static_cast<int>((random() % static_cast<unsigned>(experts) + random() % static_cast<unsigned>(experts))
                              / 2);
    std::vector<int> order(ids.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return ids[static_cast<std::size_t>(a)] < ids[static_cast<std::size_t>(b)]; });
    const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) -> std::string {
        const DeviceArray<int> deviceIds(ids);
        const Groups groups(rows, experts, tileRows);
        const RowGroups &found = groups.groups();
        launchGroupRows(deviceIds.data(), found, stream);
        if (!groups.intact() || !std::equal(order.begin(), order.end(), found.rows))
            return "rows are not sorted by expert";
        int next = 0;
        int tile = 0;
        for (int e = 0; e < experts; ++e) {
            if (found.starts[e] != next)
                return "expert " + std::to_string(e) + " begins at " + std::to_string(found.starts[e]);
            const int end = next + static_cast<int>(std::count(ids.begin(), ids.end(), e));
            for (; next < end; next += found.tiles[tile++].count) {
                const ExpertTile &own = found.tiles[tile];
                if (own.expert != e || own.first != next || own.count != std::min(tileRows, end - next))
                    return "tile " + std::to_string(tile) + " is wrong";
            }
        }
        if (found.starts[experts] != rows)
            return "the last expert's rows have another end";
        for (; tile < found.tileCount; ++tile)
            if (found.tiles[tile].count != 0)
                return "a tile that is not needed has rows";
        return {};
    });
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestCudaExperts::experts_data()
{
    QTest::addColumn<int>("tokens");
    QTest::addColumn<int>("tileRows");
    QTest::addColumn<int>("first");
    QTest::addColumn<int>("second");
    QTest::addColumn<bool>("bias");
    const auto add = [](int tokens, int tileRows, DType first, DType second, bool bias) {
        QTest::addRow("%d tokens, tiles of %d, %s and %s%s", tokens, tileRows, info(first).name.data(),
                      info(second).name.data(), bias ? ", biases" : "")
            << tokens << tileRows << int(first) << int(second) << bias;
    };
    add(3, 16, DType::F16, DType::F16, false);
    add(2, 16, DType::F32, DType::F32, true);
    if (device_rig::smallOnly())
        return;
    add(1, 16, DType::Q8_0, DType::Q8_0, true);
    add(19, 16, DType::Q4_0, DType::MXFP4, true);
    add(150, 64, DType::F32, DType::F32, false);
    add(150, 64, DType::BF16, DType::F32, true);
    add(160, 64, DType::Q5_1, DType::INT4, false);
}

void TestCudaExperts::experts()
{
    QFETCH(int, tokens);
    QFETCH(int, tileRows);
    QFETCH(int, first);
    QFETCH(int, second);
    QFETCH(bool, bias);
    Step step;
    step.set.types = {static_cast<DType>(first)};
    if (second != first)
        step.set.types.push_back(static_cast<DType>(second));
    step.set.columns = 96;
    step.tokens = tokens;
    step.bias = bias;
    step.activation = bias ? Activation::SwigluClamped : Activation::Silu;
    const Layer layer(step);
    const Results wanted = onReference(layer);
    const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) {
        std::string error;
        const Results found = onDevice(layer, 0, tokens, tileRows, stream, error);
        if (error.empty())
            error = device_rig::compareRows(found.inner, wanted.inner, step.set.inner, limitFor(step));
        if (error.empty())
            error = device_rig::compareRows(found.out, wanted.out, step.set.columns, limitFor(step));
        return error;
    });
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestCudaExperts::tokensDoNotDependOnNeighbours()
{
    if (device_rig::smallOnly())
        return; // the same launches as above
    for (const DType type : {DType::Q4_0, DType::F32}) {
        Step step;
        step.set.types = {type};
        step.tokens = 70;
        const Layer layer(step);
        const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) {
            std::string error;
            const Results whole = onDevice(layer, 0, step.tokens, 16, stream, error);
            for (const auto &[first, last, tileRows] :
                 {std::tuple{0, 1, 16}, {8, 9, 64}, {2, 7, 16}, {0, step.tokens, 64}}) {
                const Results part = onDevice(layer, first, last, tileRows, stream, error);
                const std::vector<float> same(whole.out.begin() + static_cast<std::ptrdiff_t>(first) * step.set.columns,
                                              whole.out.begin() + static_cast<std::ptrdiff_t>(last) * step.set.columns);
                if (error.empty())
                    error = device_rig::compareBits(part.out, same);
                if (!error.empty())
                    return "tokens " + std::to_string(first) + " to " + std::to_string(last) + ": " + error;
            }
            return error;
        });
        QVERIFY2(wrong.empty(), wrong.c_str());
    }
}

/// A row that an expert multiplies has the bits that the same matrix gives as a layer's only one.
void TestCudaExperts::expertRowsAreProductsAsAnyOther()
{
    if (device_rig::smallOnly())
        return; // the same launches as above
    ExpertSet set;
    set.types = {DType::Q8_0};
    const Part part = Part::make(set, 70, 64, 5, 0);
    const std::vector<int> ids{4, 2, 0, 2, 4, 4};
    const std::vector<float> x = kernel_data::randomFloats(3 * 64, 6);
    const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) -> std::string {
        const DeviceExperts experts(part.weights, 2.0F);
        const DeviceArray<int> deviceIds(ids);
        const Groups groups(6, 5, 16);
        launchGroupRows(deviceIds.data(), groups.groups(), stream);
        const Rows rows(3, 64, x);
        const Rows out(6, 70);
        const Cast cast(rows.span(), wholeColumns(64), false, nullptr, stream);
        launchExpertProducts(experts.of(DType::Q8_0), groups.groups(), cast.rows(), 2, {out.span(), 0, nullptr},
                             stream);
        const Rows all(3, 70);
        for (std::size_t row = 0; row < ids.size(); ++row) {
            const DeviceWeight own(part.weights[static_cast<std::size_t>(ids[row])], 2.0F);
            launchProducts(own.view(), cast.rows(), {all.span(), nullptr, false}, stream);
            const int token = static_cast<int>(row) / 2;
            const std::vector<float> found(out.row(static_cast<int>(row)), out.row(static_cast<int>(row)) + 70);
            const std::string error =
                device_rig::compareBits(found, std::vector<float>(all.row(token), all.row(token) + 70));
            if (!error.empty())
                return "row " + std::to_string(row) + ": " + error;
        }
        return {};
    });
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestCudaExperts::combineGoesByAscendingExpert()
{
    constexpr int columns = 133;
    const std::vector<int> ids{7, 0, 3, 1, 2, 300, 5, 4, 6};
    const std::vector<std::size_t> byExpert{1, 2, 0, 0, 1, 2, 1, 0, 2}; // of each token's three
    const std::vector<float> products = kernel_data::randomFloats(9 * columns, 1);
    const std::vector<float> weights = kernel_data::randomFloats(9, 2);
    const std::vector<float> start = kernel_data::randomFloats(3 * columns, 3);
    std::vector<float> wanted = start;
    for (std::size_t t = 0; t < 3; ++t)
        for (std::size_t i = 0; i < columns; ++i)
            for (std::size_t r = 0; r < 3; ++r) {
                const std::size_t row = 3 * t + byExpert[3 * t + r];
                wanted[t * columns + i] = std::fma(weights[row], products[row * columns + i], wanted[t * columns + i]);
            }
    const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) -> std::string {
        const DeviceArray<int> deviceIds(ids);
        const Rows deviceProducts(9, columns, products);
        const Rows deviceWeights(3, 3, weights);
        const Rows inout(3, columns, start);
        launchCombine(deviceProducts.span(), deviceIds.data(), deviceWeights.span(), inout.span(), stream);
        return inout.restIntact() ? device_rig::compareBits(inout.values(), wanted) : "borders were written to";
    });
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestCudaExperts::heads_data()
{
    QTest::addColumn<int>("tokens");
    QTest::addColumn<int>("heads");
    QTest::addColumn<int>("rows");
    QTest::addColumn<int>("columns");
    QTest::addColumn<int>("type");
    for (const auto &[tokens, heads, rows, columns, type] : {std::tuple{1, 3, 20, 32, DType::F16},
                                                             {5, 2, 70, 64, DType::F32},
                                                             {70, 3, 17, 96, DType::Q8_0},
                                                             {33, 1, 8, 32, DType::F32},
                                                             {16, 4, 65, 32, DType::BF16}})
        if (!device_rig::smallOnly() || tokens == 1)
            QTest::addRow("%d tokens, %d heads of %dx%d, %s", tokens, heads, rows, columns, info(type).name.data())
                << tokens << heads << rows << columns << int(type);
}

void TestCudaExperts::heads()
{
    QFETCH(int, tokens);
    QFETCH(int, heads);
    QFETCH(int, rows);
    QFETCH(int, columns);
    QFETCH(int, type);
    ExpertSet set;
    set.experts = heads;
    set.types = {static_cast<DType>(type)};
    const Part part = Part::make(set, rows, columns, 8, 0);
    std::vector<float> x = kernel_data::randomFloats(sizeOf(tokens * heads, columns), 9);
    const auto ops = kernel_data::reference();
    const auto hostStream = ops->makeStream();
    std::vector<std::unique_ptr<PackedWeight>> packed;
    std::vector<const PackedWeight *> weights;
    for (const Weight &weight : part.weights) {
        const WeightPart one = weight.part();
        weights.push_back(packed.emplace_back(ops->pack({&one, 1})).get());
    }
    std::vector<float> wanted(sizeOf(tokens * heads, rows));
    ops->linearHeads(weights, makeView(x.data(), DType::F32, tokens, heads, columns),
                     makeView(wanted.data(), DType::F32, tokens, heads, rows), *hostStream);
    const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) -> std::string {
        const DeviceExperts experts(part.weights, 2.0F);
        const Rows deviceX(tokens * heads, columns, x, Rows::Layout{heads, 3, 5});
        const Rows out(tokens * heads, rows, Rows::Layout{heads, 1, 2});
        const ExpertWeights own = experts.of(set.types[0]);
        if (own.type == DType::F32) {
            launchFloatHeadProducts(own, heads, deviceX.span(), out.span(), stream);
        } else {
            const Cast cast(deviceX.span(), own.columns, wantsBf16(own.type), nullptr, stream);
            launchHeadProducts(own, heads, cast.rows(), out.span(), stream);
        }
        if (!out.restIntact())
            return "something was written outside of the results";
        return device_rig::compareRows(out.values(), wanted, rows, own.type == DType::F32 ? 1e-11 : 1e-6);
    });
    QVERIFY2(wrong.empty(), wrong.c_str());
}

QTEST_GUILESS_MAIN(TestCudaExperts)
#include "tst_cuda_experts.moc"
