// SPDX-License-Identifier: GPL-3.0-or-later
// Products with weights of every type and rows of embedding tables, in the emulator.
#include "kernels/cuda/launch_experts.h"
#include "tests/cuda/device_weight.h"
#include "tests/support/shared_data.h"

#include <QTest>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

using namespace kernels;
using namespace kernels::cuda;
using device_rig::Cast;
using device_rig::DeviceArray;
using device_rig::DeviceWeight;
using device_rig::Rounded;
using device_rig::Rows;
using kernel_data::Weight;

namespace {

struct Products {
    DType type = DType::F16;
    int tokens = 1;
    int features = 64;
    int columns = 256;
    bool bias = false;
    bool add = false;
    kernel_data::Scales scales = kernel_data::Scales::Usual;
    bool rowScales = false; ///< of W8A8
};

std::vector<float> xOf(const Products &p)
{
    std::vector<float> x = kernel_data::randomFloats(static_cast<std::size_t>(p.tokens * p.columns), 11);
    for (std::size_t i = 0; i < x.size(); ++i) // rows of different sizes
        x[i] *= std::ldexp(1.0F, static_cast<int>(i / static_cast<std::size_t>(p.columns) % 7) * 5 - 15);
    return x;
}

std::vector<float> startOf(const Products &p)
{
    return kernel_data::randomFloats(static_cast<std::size_t>(p.tokens * p.features), 12);
}

std::vector<float> biasOf(const Products &p)
{
    return kernel_data::randomFloats(static_cast<std::size_t>(p.features), 13);
}

/// The power of two that takes the largest weight to [2^11, 2^12), as PackedMatrix about does where weights become
/// halves.
float factorFor(DType type, const std::vector<float> &weights)
{
    if (type == DType::F32 || wantsBf16(type) || wantsInt8(type))
        return 1.0F;
    float largest = 0.0F;
    for (const float weight : weights)
        largest = std::max(largest, std::fabs(weight));
    return std::ldexp(1.0F, std::clamp(11 - std::ilogb(largest), -126, 126));
}

/// Outputs of rows [first, last) of the activations.
std::vector<float> multiply(const Products &p, const Weight &weight, float factor, int first, int last,
                            StreamHandle stream, std::string &wrong)
{
    const DeviceWeight matrix(weight, factor);
    const std::vector<float> all = xOf(p);
    const std::vector<float> own(all.begin() + static_cast<std::ptrdiff_t>(first) * p.columns,
                                 all.begin() + static_cast<std::ptrdiff_t>(last) * p.columns);
    const std::vector<float> starts = startOf(p);
    const std::vector<float> start(starts.begin() + static_cast<std::ptrdiff_t>(first) * p.features,
                                   starts.begin() + static_cast<std::ptrdiff_t>(last) * p.features);
    const DeviceArray<float> bias(biasOf(p));
    const Rows x(last - first, p.columns, own);
    const Rows out = p.add ? Rows(last - first, p.features, start) : Rows(last - first, p.features);
    const ProductTarget target{out.span(), p.bias ? bias.data() : nullptr, p.add};
    if (p.type == DType::F32) {
        launchFloatProducts(matrix.view(), x.span(), target, stream);
    } else if (wantsInt8(p.type)) {
        const Rounded rounded(x.span(), matrix.view().columns, nullptr, 0.0F, stream);
        launchProducts(matrix.view(), rounded.rows(), target, stream);
        if (!rounded.bordersIntact())
            wrong = "rounding wrote outside of its rows";
    } else {
        const Cast cast(x.span(), matrix.view().columns, wantsBf16(p.type), nullptr, stream);
        launchProducts(matrix.view(), cast.rows(), target, stream);
        if (!cast.bordersIntact())
            wrong = "the cast wrote outside of its rows";
    }
    if (!out.restIntact() || x.values() != own)
        wrong = "something was written outside of the outputs";
    return out.values();
}

/// Whether each output is its sum in double, up to a square error of `limit` times the squares of its terms: what
/// rounding each factor by itself leaves. One term left out or taken twice is far outside.
std::string compareProducts(const Products &p, const std::vector<float> &x, const std::vector<float> &weights,
                            const std::vector<float> &found, double limit)
{
    const std::vector<float> start = startOf(p);
    const std::vector<float> bias = biasOf(p);
    for (std::size_t i = 0; i < found.size(); ++i) {
        const std::size_t token = i / static_cast<std::size_t>(p.features);
        const std::size_t feature = i % static_cast<std::size_t>(p.features);
        double sum = 0.0;
        double squares = 0.0;
        for (std::size_t k = 0; k < static_cast<std::size_t>(p.columns); ++k) {
            const double term = static_cast<double>(x[token * static_cast<std::size_t>(p.columns) + k])
                * weights[feature * static_cast<std::size_t>(p.columns) + k];
            sum += term;
            squares += term * term;
        }
        const double shift = p.bias ? bias[feature] : 0.0F;
        const double base = p.add ? start[i] : 0.0F;
        const double error = static_cast<double>(found[i]) - sum - shift - base;
        const double rounding = (shift * shift + base * base) * 4e-14; // of the float additions
        if (!(error * error <= limit * squares + rounding))
            return "token " + std::to_string(token) + ", feature " + std::to_string(feature) + ": found "
                + std::to_string(found[i]) + ", wanted " + std::to_string(sum + shift + base)
                + "; the square of the error is " + std::to_string(error * error / squares * 1e9)
                + "e-9 of the terms' squares";
    }
    return {};
}

/// What rounding to half leaves of weights and activations; F16 and BF16 weights are exact, activations that meet BF16
/// have two terms. Those that meet F32 are rounded at every addition, and int8 numbers that meet int8 at few.
double limitFor(const Products &p)
{
    if (wantsInt8(p.type))
        return 1e-12;
    return p.type == DType::F32 ? 2e-13 * p.columns : p.type == DType::BF16 ? 2e-10 : 4e-6;
}

Weight weightOf(const Products &p)
{
    Weight weight = kernel_data::randomWeight(p.type, p.features, p.columns, 5, p.scales);
    if (p.rowScales) {
        const std::size_t stride = weight.bytes.size() / static_cast<std::size_t>(p.features);
        for (std::size_t at = 0; at < weight.bytes.size(); at += 36)
            std::memcpy(weight.bytes.data() + at, weight.bytes.data() + at / stride * stride, sizeof(float));
    }
    return weight;
}

std::string check(const Products &p)
{
    const Weight weight = weightOf(p);
    const std::vector<float> weights = weight.expanded();
    const float factor = factorFor(p.type, weights);
    return device_rig::underSchedules([&](StreamHandle stream) {
        std::string wrong;
        const std::vector<float> found = multiply(p, weight, factor, 0, p.tokens, stream, wrong);
        if (wrong.empty() && wantsInt8(p.type)) { // rounded to steps of 1 / 127 of a row's largest
            constexpr double roundingLimit = 1e-3;
            wrong = compareProducts(p, xOf(p), weights, found, roundingLimit);
        }
        const auto columns = static_cast<std::size_t>(p.columns);
        const std::vector<float> x = wantsInt8(p.type) ? device_rig::roundedRows(xOf(p), columns) : xOf(p);
        return wrong.empty() ? compareProducts(p, x, weights, found, limitFor(p)) : wrong;
    });
}

/// Types that are made in different ways.
bool isPlainOrK(DType type)
{
    return type == DType::F32 || type == DType::BF16 || type == DType::Q4_K || type == DType::W8A8;
}

const std::vector<DType> &types()
{
    static const std::vector<DType> list = [] {
        std::vector<DType> known;
        std::copy_if(kernel_data::weightTypes().begin(), kernel_data::weightTypes().end(), std::back_inserter(known),
                     [](DType type) { return isMatrixType(type) && (!device_rig::smallOnly() || isPlainOrK(type)); });
        return known;
    }();
    return list;
}

/// All types, or outside of the whole full tier those whose numbers are made in another way.
void addTypes(bool all = true)
{
    QTest::addColumn<int>("type");
    for (const DType type : types())
        if (all || isPlainOrK(type) || (shared_data::fullTier() && !device_rig::thinned()))
            QTest::addRow("%s", info(type).name.data()) << int(type);
}

/// Columns that a type allows: whole blocks, any number for floats.
int columnsNear(DType type, int columns)
{
    const int block = info(type).blockElements;
    return (columns + block - 1) / block * block;
}

} // namespace

class TestCudaProducts : public QObject {
    Q_OBJECT

private slots:
    void knowsTypes();
    void shapes_data();
    void shapes();
    void targets_data() { addTypes(); }
    void targets();
    void scales_data() { addTypes(); }
    void scales();
    void rowsDoNotDependOnNeighbours_data() { addTypes(false); }
    void rowsDoNotDependOnNeighbours();
    void fewRowsAreAsMany_data();
    void fewRowsAreAsMany();
    void headsOfBothKindsOfScales();
    void floatProductsAreSumsByAscendingColumn();
    void embed_data() { addTypes(); }
    void embed();
};

void TestCudaProducts::knowsTypes()
{
    for (const DType type : {DType::F32, DType::F16, DType::BF16, DType::Q4_0, DType::Q4_1, DType::Q8_0, DType::Q4_K,
                             DType::Q5_K, DType::Q6_K})
        QVERIFY(isMatrixType(type));
    QVERIFY(wantsBf16(DType::BF16) && !wantsBf16(DType::F16) && !wantsBf16(DType::Q4_K));
}

void TestCudaProducts::shapes_data()
{
    QTest::addColumn<int>("type");
    QTest::addColumn<int>("tokens");
    QTest::addColumn<int>("features");
    QTest::addColumn<int>("columns");
    const auto add = [](DType type, int tokens, int features, int columns) {
        columns = columnsNear(type, columns);
        QTest::addRow("%s %dx%dx%d", info(type).name.data(), tokens, features, columns)
            << int(type) << tokens << features << columns;
    };
    for (const DType type : types()) {
        add(type, 1, 17, 64);
        if (device_rig::smallOnly())
            continue;
        add(type, 18, 65, 150);
        const bool whole = shared_data::fullTier() && !device_rig::thinned();
        if (!whole && type > DType::Q8_0 && type != DType::Q4_K && type != DType::W8A8)
            continue; // one kernel for all
        add(type, 3, 63, 37);
        add(type, 16, 65, 300);
        add(type, 17, 1, 96);
        add(type, 70, 70, 160);
        add(type, 33, 16, 800);
        add(type, 2, 40, 4300);
        if (!whole)
            continue;
        for (int tokens = 1; tokens <= 70; tokens += 3)
            add(type, tokens, 1 + tokens * 11 % 140, 1 + tokens * 37 % 700);
    }
}

void TestCudaProducts::shapes()
{
    QFETCH(int, type);
    QFETCH(int, tokens);
    QFETCH(int, features);
    QFETCH(int, columns);
    Products p;
    p.type = static_cast<DType>(type);
    p.tokens = tokens;
    p.features = features;
    p.columns = columns;
    for (const bool rowScales : {false, true}) {
        p.rowScales = rowScales;
        const std::string wrong = rowScales && !wantsInt8(p.type) ? std::string() : check(p);
        QVERIFY2(wrong.empty(), wrong.c_str());
    }
}

void TestCudaProducts::targets()
{
    QFETCH(int, type);
    Products p;
    p.type = static_cast<DType>(type);
    p.columns = columnsNear(p.type, 64);
    p.features = 21;
    p.tokens = device_rig::smallOnly() ? 2 : 18;
    for (const auto &[bias, add] : {std::pair{true, false}, {false, true}, {true, true}}) {
        p.bias = bias;
        p.add = add;
        const std::string wrong = check(p);
        QVERIFY2(wrong.empty(), wrong.c_str());
    }
}

/// Scales at both ends of fp16: without the factor a half would lose the weights or overflow.
void TestCudaProducts::scales()
{
    QFETCH(int, type);
    Products p;
    p.type = static_cast<DType>(type);
    p.columns = columnsNear(p.type, 64);
    p.features = 9;
    p.tokens = 2;
    if (p.type == DType::F16 || p.type == DType::BF16 || p.type == DType::F32)
        return; // of any size, without scales
    for (const auto scales : {kernel_data::Scales::Tiny, kernel_data::Scales::Huge}) {
        p.scales = scales;
        const std::string wrong = check(p);
        QVERIFY2(wrong.empty(), wrong.c_str());
    }
}

void TestCudaProducts::rowsDoNotDependOnNeighbours()
{
    QFETCH(int, type);
    Products p;
    p.type = static_cast<DType>(type);
    p.columns = columnsNear(p.type, 96);
    p.features = 70;
    p.tokens = device_rig::smallOnly() ? 18 : 70;
    p.rowScales = wantsInt8(p.type);
    const Weight weight = weightOf(p);
    const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) {
        std::string error;
        const std::vector<float> whole = multiply(p, weight, 4.0F, 0, p.tokens, stream, error);
        for (const auto &[first, last] : {std::pair{0, 1}, {15, 16}, {16, 17}, {3, 18}, {1, 65}, {63, 64}, {69, 70}}) {
            if (last > p.tokens)
                continue;
            const std::vector<float> part = multiply(p, weight, 4.0F, first, last, stream, error);
            const std::vector<float> same(whole.begin() + static_cast<std::ptrdiff_t>(first) * p.features,
                                          whole.begin() + static_cast<std::ptrdiff_t>(last) * p.features);
            if (error.empty())
                error = device_rig::compareBits(part, same);
            if (!error.empty())
                return "rows " + std::to_string(first) + " to " + std::to_string(last) + ": " + error;
        }
        return error;
    });
    QVERIFY2(wrong.empty(), wrong.c_str());
}

/// Rows of more segments than a block has warps, and the last one not whole.
void TestCudaProducts::fewRowsAreAsMany_data()
{
    QTest::addColumn<int>("type");
    QTest::addColumn<int>("columns");
    const auto hasOwnUnits = [](DType type) {
        return isPlainOrK(type) || type == DType::F16 || type == DType::Q4_0 || type == DType::Q4_1
            || type == DType::Q8_0 || type == DType::Q6_K || type == DType::INT4 || type == DType::MXFP4;
    };
    for (const DType type : types()) {
        if (type == DType::F32)
            continue; // one kernel for all
        if (shared_data::fullTier() || (hasOwnUnits(type) && !device_rig::smallOnly()))
            QTest::addRow("%s", info(type).name.data()) << int(type) << columnsNear(type, 4300);
        else if (type == DType::Q4_K || type == DType::W8A8) // under TSan
            QTest::addRow("%s, few columns", info(type).name.data()) << int(type) << columnsNear(type, 256);
        if (shared_data::fullTier())
            QTest::addRow("%s, two segments", info(type).name.data()) << int(type) << columnsNear(type, 700);
    }
}

void TestCudaProducts::fewRowsAreAsMany()
{
    QFETCH(int, type);
    QFETCH(int, columns);
    Products p;
    p.type = static_cast<DType>(type);
    p.columns = columns;
    p.features = 19;
    p.tokens = 17;
    const Weight weight = kernel_data::randomWeight(p.type, p.features, p.columns, 5);
    const float factor = factorFor(p.type, weight.expanded());
    const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) {
        std::string error;
        const std::vector<float> whole = multiply(p, weight, factor, 0, p.tokens, stream, error);
        for (const int count : {1, 2, 5, 8, 9, 15, 16}) {
            const int first = p.tokens - count;
            const std::vector<float> few = multiply(p, weight, factor, first, p.tokens, stream, error);
            const std::vector<float> same(whole.begin() + static_cast<std::ptrdiff_t>(first) * p.features, whole.end());
            if (error.empty())
                error = device_rig::compareBits(few, same);
            if (!error.empty())
                return std::to_string(count) + " rows: " + error;
        }
        return error;
    });
    QVERIFY2(wrong.empty(), wrong.c_str());
}

/// Several matrices of W8A8 in one launch, one with scales of rows: as one after the other.
void TestCudaProducts::headsOfBothKindsOfScales()
{
    constexpr int heads = 2;
    Products p;
    p.type = DType::W8A8;
    p.features = 21;
    p.columns = 160;
    const DeviceWeight blocks(weightOf(p));
    p.rowScales = true;
    const DeviceWeight rows(weightOf(p));
    for (const int tokens : {3, 18}) {
        p.tokens = tokens * heads;
        const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) -> std::string {
            const DeviceArray<WeightView> views(std::vector<WeightView>{blocks.view(), rows.view()});
            const Rows x(p.tokens, p.columns, xOf(p));
            const Rounded rounded(x.span(), blocks.view().columns, nullptr, 0.0F, stream);
            const Rows out(p.tokens, p.features);
            launchHeadProducts({p.type, views.data(), p.features, blocks.view().columns}, heads, rounded.rows(),
                               out.span(), stream);
            const Rows first(p.tokens, p.features);
            const Rows second(p.tokens, p.features);
            launchProducts(blocks.view(), rounded.rows(), {first.span(), nullptr, false}, stream);
            launchProducts(rows.view(), rounded.rows(), {second.span(), nullptr, false}, stream);
            std::vector<float> wanted = first.values();
            const std::vector<float> odd = second.values();
            for (std::size_t i = 0; i < wanted.size(); ++i)
                if (i / static_cast<std::size_t>(p.features) % heads == 1)
                    wanted[i] = odd[i];
            return out.restIntact() ? device_rig::compareBits(out.values(), wanted) : "borders were written to";
        });
        QVERIFY2(wrong.empty(), wrong.c_str());
    }
}

void TestCudaProducts::floatProductsAreSumsByAscendingColumn()
{
    Products p;
    p.type = DType::F32;
    p.tokens = 19;
    p.features = 67;
    p.columns = 101;
    const Weight weight = kernel_data::randomWeight(p.type, p.features, p.columns, 5);
    const std::vector<float> weights = weight.expanded();
    const std::vector<float> x = xOf(p);
    std::vector<float> wanted;
    for (std::size_t token = 0; token < 19; ++token) {
        for (std::size_t feature = 0; feature < 67; ++feature) {
            float sum = 0.0F;
            for (std::size_t k = 0; k < 101; ++k)
                sum = std::fma(x[token * 101 + k], weights[feature * 101 + k], sum);
            wanted.push_back(sum);
        }
    }
    const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) {
        std::string error;
        const std::vector<float> found = multiply(p, weight, 1.0F, 0, p.tokens, stream, error);
        return error.empty() ? device_rig::compareBits(found, wanted) : error;
    });
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestCudaProducts::embed()
{
    QFETCH(int, type);
    const auto dtype = static_cast<DType>(type);
    const int columns = columnsNear(dtype, 300);
    Products table; // of W8A8 with one scale for each row: other places than blocks
    table.type = dtype;
    table.features = 11;
    table.columns = columns;
    table.rowScales = dtype == DType::W8A8;
    const Weight weight = weightOf(table);
    const std::vector<float> weights = weight.expanded();
    constexpr int firstRow = 100;
    const std::vector<int> ids{103, 100, 110, 99, 111, 103, 0}; // three of them of other parts
    std::vector<int> order(static_cast<std::size_t>(columns));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(1));
    const std::vector<float> start = kernel_data::randomFloats(ids.size() * static_cast<std::size_t>(columns), 4);
    for (const bool ordered : {true, false}) {
        if (device_rig::smallOnly() && !ordered)
            continue;
        std::vector<float> wanted = start;
        for (std::size_t i = 0; i < ids.size(); ++i) {
            for (int column = 0; column < columns && ids[i] >= firstRow && ids[i] < firstRow + 11; ++column) {
                const int place = ordered ? order[static_cast<std::size_t>(column)] : column;
                wanted[i * static_cast<std::size_t>(columns) + static_cast<std::size_t>(place)] =
                    weights[static_cast<std::size_t>((ids[i] - firstRow) * columns + column)];
            }
        }
        const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) -> std::string {
            const DeviceWeight matrix(weight);
            const DeviceArray<int> deviceIds(ids);
            const DeviceArray<int> deviceOrder(order);
            const Rows out(static_cast<int>(ids.size()), columns, start);
            launchEmbed(matrix.view(), deviceIds.data(), firstRow, ordered ? deviceOrder.data() : nullptr, out.span(),
                        stream);
            return out.restIntact() ? device_rig::compareBits(out.values(), wanted) : "borders were written to";
        });
        QVERIFY2(wrong.empty(), wrong.c_str());
    }
}

QTEST_GUILESS_MAIN(TestCudaProducts)
#include "tst_cuda_products.moc"
