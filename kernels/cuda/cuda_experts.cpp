// SPDX-License-Identifier: GPL-3.0-or-later
// Mixtures of experts: rows are sorted by expert on the device, and one launch multiplies those of all experts.
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device_views.h"
#include "kernels/cuda/launch_experts.h"

namespace kernels::cuda {

namespace {

RowGroups groupsFor(int rowCount, int experts, DeviceStream &stream)
{
    RowGroups groups;
    groups.rowCount = rowCount;
    groups.experts = experts;
    groups.tileRows = tileRowsFor(rowCount, experts);
    groups.tileCount = mostTiles(rowCount, experts, groups.tileRows);
    groups.rows = stream.take<int>(rowCount);
    groups.starts = stream.take<int>(experts + 1);
    groups.tiles = stream.take<ExpertTile>(groups.tileCount);
    return groups;
}

} // namespace

void CudaOps::route(TensorView logits, const RouterShape &shape, TensorView ids, TensorView weights, Stream &stream)
{
    checkRoute(logits, shape, ids, weights);
    if (shape.experts > mostRoutedExperts)
        throw Error(ErrorCode::Refused,
                    "the CUDA kernels route among at most " + std::to_string(mostRoutedExperts) + " experts, found "
                        + std::to_string(shape.experts));
    launch(DeviceStream::of(stream),
           [&](StreamHandle handle) { launchRoute(rowsOf(logits), shape, ids.as<int>(), rowsOf(weights), handle); });
}

CastRows CudaOps::roundFor(const ExpertScales &experts, const RowSpan &x, DeviceStream &stream)
{
    const CastKey key{nullptr, DType::I8, 0.0F, experts.scales};
    if (const CastRows *known = castOf(key))
        return *known;
    const CastRows rows = addCast(key, x.rows * experts.rowsPerToken, x.columns, stream);
    launch(stream, [&](StreamHandle handle) { launchRoundForExperts(x, experts, rows, handle); });
    return rows;
}

RowSpan CudaOps::multiplyExperts(const PackedMatrix::Together &experts, const RowSpan &x, const TensorView &ids,
                                 int rowsPerToken, DeviceStream &stream)
{
    const int count = static_cast<int>(experts.matrices.size());
    const int rows = static_cast<int>(ids.elements());
    const int columns = static_cast<int>(experts.matrices[0]->rows());
    const RowSpan products = denseRows(stream.take<float>(std::int64_t{rows} * columns), rows, columns);
    const RowGroups groups = groupsFor(rows, count, stream);
    launch(stream, [&](StreamHandle handle) { launchGroupRows(ids.as<int>(), groups, handle); });
    m_casts.clear();
    ExpertTarget target{
        products, 0, experts.biasTable ? reinterpret_cast<const float *const *>(experts.biasTable->data()) : nullptr};
    const auto *views = reinterpret_cast<const WeightView *>(experts.views->data());
    const std::vector<std::int64_t> &partRows = experts.matrices[0]->partRows();
    for (std::size_t p = 0; p < partRows.size(); ++p, views += count) {
        ExpertWeights weights{DType::F32, views, static_cast<int>(partRows[p]), wholeColumns(x.columns)};
        for (const DType type : experts.types[p]) {
            weights.type = type;
            if (type == DType::F32) {
                launch(stream, [&](StreamHandle handle) {
                    launchFloatExpertProducts(weights, groups, x, rowsPerToken, target, handle);
                });
                continue;
            }
            const PackedMatrix::Together::Rounding &rounding = experts.roundings[p];
            const bool ownScales = wantsInt8(type) && rounding.scales != nullptr;
            const CastRows cast = ownScales ? roundFor({rounding.scales, ids.as<int>(), rowsPerToken}, x, stream)
                                            : castFor(type, nullptr, rounding.scale, x, stream);
            launch(stream, [&](StreamHandle handle) {
                launchExpertProducts(weights, groups, cast, ownScales ? 1 : rowsPerToken, target, handle);
            });
        }
        target.firstColumn += weights.rows;
    }
    return products;
}

void CudaOps::expertsGated(std::span<const PackedWeight *const> gateUp, Activation activation, TensorView x,
                           TensorView ids, std::span<const float *const> bias, TensorView out, Stream &stream)
{
    checkExpertShapes(gateUp, ids, bias);
    checkGated(*gateUp[0]);
    checkExpertRows(*gateUp[0], x, ids.shape[0], out, ids.elements(), gateUp[0]->rows() / 2);
    DeviceStream &own = DeviceStream::of(stream);
    own.beginOperation();
    const RowSpan products = multiplyExperts(PackedMatrix::together(gateUp, bias, *m_runtime), rowsOf(x), ids,
                                             static_cast<int>(ids.shape[1]), own);
    launch(own, [&](StreamHandle handle) { launchGate(activation, products, rowsOf(out), handle); });
}

void CudaOps::expertsCombine(std::span<const PackedWeight *const> down, TensorView inner, TensorView ids,
                             TensorView weights, std::span<const float *const> bias, TensorView inout, Stream &stream)
{
    checkExpertShapes(down, ids, bias);
    checkExpertRows(*down[0], inner, ids.elements(), inout, ids.shape[0], down[0]->rows());
    DeviceStream &own = DeviceStream::of(stream);
    own.beginOperation();
    const RowSpan products =
        multiplyExperts(PackedMatrix::together(down, bias, *m_runtime), rowsOf(inner), ids, 1, own);
    launch(own, [&](StreamHandle handle) {
        launchCombine(products, ids.as<int>(), rowsOf(weights), rowsOf(inout), handle);
    });
}

} // namespace kernels::cuda
