// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/cuda_ops.h"

#include "kernels/cuda/device_views.h"
#include "kernels/cuda/launch_experts.h"

#include <algorithm>
#include <optional>

namespace kernels::cuda {

namespace {

/// cuBLASLt where it is found and faster; else null.
std::unique_ptr<DenseProducts> openDense(Runtime &runtime, const CudaOptions &options)
{
    const auto note = [&](const std::string &text) {
        if (options.notes != nullptr)
            options.notes->push_back(text);
    };
    try {
        auto dense = std::make_unique<DenseProducts>(std::make_unique<CublasLt>(options.libraries), options.pieceBytes);
        const int rows = fasterFromRows(options.seconds ? options.seconds : timerOn(runtime, *dense));
        note(rows > 0 ? "products of " + std::to_string(rows) + " rows and more are computed by " + dense->name()
                      : dense->name() + " is no faster than Lathe's kernels and is not used");
        dense->setFromRows(rows);
        return rows > 0 ? std::move(dense) : nullptr;
    } catch (const Error &error) {
        if (error.code() != ErrorCode::NoDevice)
            throw;
        note(error.what());
        return nullptr;
    }
}

} // namespace

CudaOps::CudaOps(std::unique_ptr<Runtime> runtime, const CudaOptions &options)
    : m_runtime(std::move(runtime))
    , m_dense(options.batchDependent ? openDense(*m_runtime, options) : nullptr)
{
}

void CudaOps::transfer(const void *from, void *to, std::size_t bytes, Stream &stream)
{
    DeviceStream &own = DeviceStream::of(stream);
    if (!own.plans())
        m_runtime->copy(from, to, bytes, own.handle());
}

std::unique_ptr<PackedWeight> CudaOps::pack(std::span<const WeightPart> parts)
{
    return std::make_unique<PackedMatrix>(parts, *m_runtime);
}

void CudaOps::embed(const PackedWeight &table, std::span<const int> ids, TensorView out, Stream &stream)
{
    checkEmbed(table, ids, out);
    DeviceStream &own = DeviceStream::of(stream);
    const int *numbers = own.put(ids);
    for (const PackedMatrix::Part &part : PackedMatrix::of(table).parts())
        launch(own, [&](StreamHandle handle) {
            launchEmbed(part.view, numbers, part.firstRow, part.order, rowsOf(out), handle);
        });
}

const CastRows *CudaOps::castOf(const CastKey &key) const
{
    const auto found = std::ranges::find(m_casts, key, [](const auto &cast) { return cast.first; });
    return found != m_casts.end() ? &found->second : nullptr;
}

CastRows CudaOps::addCast(const CastKey &key, int rows, int columns, DeviceStream &stream)
{
    CastRows cast;
    cast.rows = rows;
    cast.columns = wholeColumns(columns);
    cast.terms = key.numbers == DType::BF16 ? 2 : 1;
    const std::int64_t count = std::int64_t{cast.rows} * cast.terms * cast.columns;
    cast.numbers = stream.take<std::byte>(count * info(key.numbers).blockBytes);
    cast.scales = stream.take<float>(cast.rows);
    m_casts.emplace_back(key, cast);
    return cast;
}

CastRows CudaOps::castFor(DType type, const int *order, float fixedScale, const RowSpan &x, DeviceStream &stream)
{
    const DType numbers = wantsBf16(type) ? DType::BF16 : wantsInt8(type) ? DType::I8 : DType::F16;
    const CastKey key{order, numbers, numbers == DType::I8 ? fixedScale : 0.0F, nullptr};
    if (const CastRows *known = castOf(key))
        return *known;
    const CastRows rows = addCast(key, x.rows, x.columns, stream);
    launch(stream, [&](StreamHandle handle) {
        if (numbers == DType::I8)
            launchRound(x, order, fixedScale, rows, handle);
        else
            launchCast(x, order, numbers == DType::BF16, rows, handle);
    });
    return rows;
}

void CudaOps::multiply(const PackedMatrix &weight, const RowSpan &x, const ProductTarget &target, DeviceStream &stream)
{
    m_casts.clear();
    std::optional<DenseProducts::Room> room;
    for (const PackedMatrix::Part &part : weight.parts()) {
        ProductTarget own = target;
        own.out.data += part.firstRow;
        own.out.columns = part.view.rows;
        if (own.bias != nullptr)
            own.bias += part.firstRow;
        if (part.view.type == DType::F32) {
            launch(stream, [&](StreamHandle handle) { launchFloatProducts(part.view, x, own, handle); });
            continue;
        }
        const CastRows cast = castFor(part.view.type, part.order, part.activationScale, x, stream);
        if (m_dense && m_dense->takes(part.view.type, x.rows)) {
            if (!room)
                room = m_dense->roomFor(x.rows, cast.columns, stream);
            m_dense->multiply(part.view, cast, own, *room, stream);
            continue;
        }
        launch(stream, [&](StreamHandle handle) { launchProducts(part.view, cast, own, handle); });
    }
}

void CudaOps::linear(const PackedWeight &weight, TensorView x, TensorView out, const float *bias, Stream &stream)
{
    checkLinear(weight, x, out, weight.rows());
    DeviceStream &own = DeviceStream::of(stream);
    own.beginOperation();
    multiply(PackedMatrix::of(weight), rowsOf(x), {rowsOf(out), bias, false}, own);
}

void CudaOps::linearAdd(const PackedWeight &weight, TensorView x, TensorView inout, const float *bias, Stream &stream)
{
    checkLinear(weight, x, inout, weight.rows());
    DeviceStream &own = DeviceStream::of(stream);
    own.beginOperation();
    multiply(PackedMatrix::of(weight), rowsOf(x), {rowsOf(inout), bias, true}, own);
}

void CudaOps::linearGated(const PackedWeight &gateUp, Activation activation, TensorView x, TensorView out,
                          const float *bias, Stream &stream)
{
    checkLinear(gateUp, x, out, gateUp.rows() / 2);
    checkGated(gateUp);
    DeviceStream &own = DeviceStream::of(stream);
    own.beginOperation();
    const int rows = static_cast<int>(x.shape[0]);
    const int columns = static_cast<int>(gateUp.rows());
    const RowSpan products = denseRows(own.take<float>(std::int64_t{rows} * columns), rows, columns);
    multiply(PackedMatrix::of(gateUp), rowsOf(x), {products, bias, false}, own);
    launch(own, [&](StreamHandle handle) { launchGate(activation, products, rowsOf(out), handle); });
}

void CudaOps::linearHeads(std::span<const PackedWeight *const> weights, TensorView x, TensorView out, Stream &stream)
{
    checkLinearHeads(weights, x, out);
    DeviceStream &own = DeviceStream::of(stream);
    own.beginOperation();
    m_casts.clear();
    const PackedMatrix::Together &heads = PackedMatrix::together(weights, {}, *m_runtime);
    CHECK(heads.types.size() == 1 && heads.types[0].size() == 1); // all from one tensor
    const DType type = heads.types[0][0];
    const int count = static_cast<int>(weights.size());
    const ExpertWeights views{type, reinterpret_cast<const WeightView *>(heads.views->data()),
                              static_cast<int>(weights[0]->rows()), wholeColumns(weights[0]->columns())};
    if (type == DType::F32) {
        launch(own,
               [&](StreamHandle handle) { launchFloatHeadProducts(views, count, rowsOf(x), rowsOf(out), handle); });
        return;
    }
    const CastRows cast = castFor(type, nullptr, 0.0F, rowsOf(x), own);
    launch(own, [&](StreamHandle handle) { launchHeadProducts(views, count, cast, rowsOf(out), handle); });
}

void CudaOps::activate(Activation activation, TensorView inout, Stream &stream)
{
    checkFloatView(inout, 2);
    CHECK(activation != Activation::SwigluClamped);
    launch(DeviceStream::of(stream), [&](StreamHandle handle) { launchActivate(activation, rowsOf(inout), handle); });
}

void CudaOps::rmsNorm(TensorView x, const float *weight, float epsilon, TensorView out, Stream &stream)
{
    checkNorm(x, out);
    launch(DeviceStream::of(stream),
           [&](StreamHandle handle) { launchRmsNorm(rowsOf(x), weight, epsilon, rowsOf(out), handle); });
}

void CudaOps::layerNorm(TensorView x, const float *weight, const float *bias, float epsilon, TensorView out,
                        Stream &stream)
{
    checkNorm(x, out);
    launch(DeviceStream::of(stream),
           [&](StreamHandle handle) { launchLayerNorm(rowsOf(x), weight, bias, epsilon, rowsOf(out), handle); });
}

void CudaOps::zero(TensorView out, Stream &stream)
{
    checkFloatView(out, 2);
    launch(DeviceStream::of(stream), [&](StreamHandle handle) { launchZero(rowsOf(out), handle); });
}

void CudaOps::copy(TensorView x, TensorView out, Stream &stream)
{
    checkNorm(x, out);
    launch(DeviceStream::of(stream), [&](StreamHandle handle) { launchCopy(rowsOf(x), rowsOf(out), handle); });
}

void CudaOps::add(TensorView x, TensorView inout, Stream &stream)
{
    checkSameShape(x, inout);
    launch(DeviceStream::of(stream), [&](StreamHandle handle) { launchAdd(rowsOf(x), rowsOf(inout), handle); });
}

void CudaOps::gatedAdd(TensorView x, TensorView gate, TensorView inout, Stream &stream)
{
    checkGatedAdd(x, gate, inout);
    launch(DeviceStream::of(stream),
           [&](StreamHandle handle) { launchGatedAdd(rowsOf(x), rowsOf(gate), rowsOf(inout), handle); });
}

void CudaOps::scale(TensorView inout, float factor, Stream &stream)
{
    checkFloatView(inout, 2);
    launch(DeviceStream::of(stream), [&](StreamHandle handle) { launchScale(rowsOf(inout), factor, handle); });
}

void CudaOps::softCap(TensorView inout, float cap, Stream &stream)
{
    checkFloatView(inout, 2);
    CHECK(cap > 0.0F);
    launch(DeviceStream::of(stream), [&](StreamHandle handle) { launchSoftCap(rowsOf(inout), cap, handle); });
}

void CudaOps::clamp(TensorView inout, float limit, Stream &stream)
{
    checkFloatView(inout, 2);
    CHECK(limit > 0.0F);
    launch(DeviceStream::of(stream), [&](StreamHandle handle) { launchClamp(rowsOf(inout), limit, handle); });
}

void CudaOps::gatherRows(TensorView x, std::span<const int> rows, TensorView out, Stream &stream)
{
    checkGather(x, rows, out);
    DeviceStream &own = DeviceStream::of(stream);
    const int *numbers = own.put(rows);
    launch(own, [&](StreamHandle handle) { launchGather(rowsOf(x), numbers, rowsOf(out), handle); });
}

std::unique_ptr<Ops> makeCudaOps(std::unique_ptr<Runtime> runtime, const CudaOptions &options)
{
    return std::make_unique<CudaOps>(std::move(runtime), options);
}

} // namespace kernels::cuda
