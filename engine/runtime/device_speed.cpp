// SPDX-License-Identifier: GPL-3.0-or-later
// How fast a device runs the operations that decide about a model's speed.
#include "engine/api/error.h"
#include "engine/api/self_test.h"
#include "engine/runtime/self_test_side.h"
#include "kernels/gpus.h"
#include "kernels/quantize.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <numeric>

namespace engine {

namespace {

using kernels::DType;
using kernels::TensorView;

/// What is measured: enough to be beyond the caches and the launch of the device.
struct Sizes {
    int weightParts = 0; ///< of 1,024 rows and 4,096 columns each, all equal
    int promptTokens = 0;
    int sequences = 0;
    int context = 0;
    int launches = 1; ///< queued before the device is waited for
};

constexpr std::int64_t partRows = 1024;

Sizes sizesFor(const kernels::Ops &ops)
{
    if (ops.isa() == "simt")
        return {1, 2, 1, 64, 1};
    return ops.freeOwnMemory() ? Sizes{64, 2048, 32, 4096, 8} : Sizes{8, 128, 4, 1024, 1};
}

/// Seconds of one call of `work`, best of several.
template<typename Work> double seconds(SelfTestSide &side, int launches, const Work &work)
{
    constexpr int passes = 3;
    double best = 0;
    for (int pass = 0; pass <= passes; ++pass) {
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < launches; ++i)
            work();
        side.stream().synchronize();
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
        const double one = taken.count() / launches;
        if (pass == 1 || (pass > 1 && one < best)) // the first one plans and touches memory
            best = one;
    }
    return best;
}

std::string numbers(std::initializer_list<std::int64_t> values)
{
    std::string text;
    for (const std::int64_t value : values)
        text += (text.empty() ? "" : "x") + std::to_string(value);
    return text;
}

/// Products of one token and of a prompt with weights of one type.
class ProductSpeed {
public:
    ProductSpeed(SelfTestSide &side, DType type, int parts, std::int64_t columns)
        : m_side(side)
        , m_rows(parts * partRows)
        , m_columns(columns)
        , m_bytes(static_cast<std::size_t>(m_rows) * kernels::rowBytes(type, columns))
    {
        TestNumbers random;
        const std::size_t rowBytes = kernels::rowBytes(type, columns);
        m_source.resize(static_cast<std::size_t>(partRows) * rowBytes);
        std::vector<float> row(static_cast<std::size_t>(columns));
        for (std::int64_t r = 0; r < partRows; ++r) {
            std::ranges::generate(row, [&] { return static_cast<float>(random.uniform() - 0.5); });
            kernels::quantizeRow(type, row.data(), columns, nullptr,
                                 m_source.data() + static_cast<std::size_t>(r) * rowBytes);
        }
        kernels::WeightPart part;
        part.name = "speed";
        part.type = type;
        part.rows = partRows;
        part.columns = columns;
        part.data = m_source.data();
        m_weight = side.ops().pack(std::vector<kernels::WeightPart>(static_cast<std::size_t>(parts), part));
    }

    [[nodiscard]] SpeedRow measure(int tokens, int launches)
    {
        SpeedRow row;
        row.op = tokens == 1 ? "product of one token" : "product of a prompt";
        row.shape = numbers({tokens, m_rows, m_columns});
        TestNumbers random;
        const TensorView x = m_side.random(random, tokens, m_columns);
        const TensorView out = m_side.empty(tokens, m_rows);
        row.seconds =
            seconds(m_side, launches, [&] { m_side.ops().linear(*m_weight, x, out, nullptr, m_side.stream()); });
        row.gbps = static_cast<double>(m_bytes) / row.seconds / 1e9;
        row.gflops = 2.0 * tokens * static_cast<double>(m_rows) * static_cast<double>(m_columns) / row.seconds / 1e9;
        return row;
    }

private:
    SelfTestSide &m_side;
    std::int64_t m_rows;
    std::int64_t m_columns;
    std::size_t m_bytes;
    std::vector<std::byte> m_source;
    std::unique_ptr<kernels::PackedWeight> m_weight;
};

/// Attention of a model with 32 heads of 128 in groups of four.
SpeedRow attentionSpeed(SelfTestSide &side, int sequences, int queries, int context, int launches)
{
    constexpr int heads = 32;
    constexpr int kvHeads = 8;
    constexpr int headDim = 128;
    constexpr int blockTokens = 16;
    const int blocks = (context + blockTokens - 1) / blockTokens;
    kernels::KvLayer layer{nullptr, DType::F16, DType::F16, blocks * sequences, kvHeads, blockTokens, headDim, false};
    layer.data = side.memory(layer.blockBytes() * static_cast<std::size_t>(layer.blocks));
    std::vector<int> tables(static_cast<std::size_t>(layer.blocks)); // blocks of a sequence lie apart
    for (int sequence = 0; sequence < sequences; ++sequence)
        for (int block = 0; block < blocks; ++block)
            tables[static_cast<std::size_t>(sequence * blocks + block)] = block * sequences + sequence;
    TestNumbers random;
    const TensorView keys = side.random(random, blockTokens, kvHeads, headDim);
    std::vector<int> slots(blockTokens);
    for (int block = 0; block < layer.blocks; ++block) {
        std::iota(slots.begin(), slots.end(), block * blockTokens);
        side.ops().kvStore(keys, keys, layer, slots, side.stream());
        side.stream().synchronize();
    }
    std::vector<int> starts(static_cast<std::size_t>(sequences) + 1);
    for (int i = 0; i <= sequences; ++i)
        starts[static_cast<std::size_t>(i)] = i * queries;
    const std::vector<int> lengths(static_cast<std::size_t>(sequences), context);
    kernels::AttentionShape shape;
    shape.heads = heads;
    shape.kvHeads = kvHeads;
    shape.headDim = headDim;
    shape.scale = 0.088F;
    const int rows = sequences * queries;
    const TensorView q = side.random(random, rows, heads, headDim);
    const TensorView out = side.empty(rows, std::int64_t{heads} * headDim);
    SpeedRow row;
    row.op = queries == 1 ? "attention of one token" : "attention of a prompt";
    row.dtype = "f16";
    row.shape = numbers({sequences, queries, context});
    row.seconds = seconds(side, launches, [&] {
        side.ops().pagedAttention(q, layer, {starts, lengths, tables, blocks, blockTokens}, shape,
                                  kernels::makeView(out.data, DType::F32, rows, heads, headDim), side.stream());
    });
    const double pairs = queries == 1 ? double(context) : double(queries) * (queries + 1) / 2; // a token and a key
    row.gbps = static_cast<double>(layer.blockBytes()) * layer.blocks / row.seconds / 1e9;
    row.gflops = 4.0 * sequences * pairs * heads * headDim / row.seconds / 1e9;
    return row;
}

/// One that fails says so.
template<typename Measure> SpeedRow guarded(const char *op, const std::string &dtype, const Measure &measure)
{
    try {
        SpeedRow row = measure();
        row.dtype = dtype;
        return row;
    } catch (const Error &error) {
        SpeedRow row;
        row.op = op;
        row.dtype = dtype;
        row.error = error.what();
        return row;
    }
}

} // namespace

void measureSpeed(const SelfTestOptions &options, const std::function<void(const SpeedRow &)> &onRow,
                  std::stop_token stop)
{
    kernels::OpsOptions wanted;
    wanted.device = options.device == "auto" ? kernels::bestDevice() : options.device;
    wanted.threads = options.threads;
    wanted.isa = options.isa;
    wanted.deterministic = options.deterministic;
    const auto ops = kernels::makeOps(wanted);
    const Sizes sizes = sizesFor(*ops);
    const auto tell = [&](const SpeedRow &row) {
        if (stop.stop_requested())
            throw Error(ErrorCode::Cancelled, "measuring was cancelled");
        onRow(row);
    };
    const std::int64_t columns = ops->isa() == "simt" ? 256 : 4096;
    for (const DType type : {DType::Q4_0, DType::Q8_0, DType::F16}) {
        if (!ops->supportsWeight(type))
            continue;
        const std::string dtype(kernels::info(type).name);
        SelfTestSide side(*ops);
        std::unique_ptr<ProductSpeed> products;
        for (const int tokens : {1, sizes.promptTokens})
            tell(guarded("products", dtype, [&] {
                if (!products)
                    products = std::make_unique<ProductSpeed>(side, type, sizes.weightParts, columns);
                return products->measure(tokens, tokens == 1 ? sizes.launches : 1);
            }));
    }
    for (const bool prompt : {false, true})
        tell(guarded("attention", "f16", [&] {
            SelfTestSide side(*ops);
            return prompt ? attentionSpeed(side, 1, sizes.promptTokens, sizes.promptTokens, 1)
                          : attentionSpeed(side, sizes.sequences, 1, sizes.context, sizes.launches);
        }));
}

} // namespace engine
