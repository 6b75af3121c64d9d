// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// Products from packed weights on the tensor cores, with sums in float.
///
/// One order for every number of rows, so that few (decode) and many (prefill) give the same bits: columns go in groups
/// of 128, four units; step s of eight multiplies numbers 4 s to 4 s + 3 of all four; four groups, a segment, are added
/// in one accumulator, and segments in float, ascending. Weights are the operand of 16 rows, activations that of 8
/// columns. Lane i holds numbers of unit i % 4 of both, each at its place in memory: nothing is transposed or shuffled.
///
/// `rowProductsKernel` is for up to 16 rows: each warp streams segments of 16 features from memory through registers.
/// `tileProductsKernel` is for more: 64 rows share an expanded tile of 64 features.

#include "kernels/cuda/row_products.cuh"
#include "kernels/cuda/tile_products.cuh"

namespace kernels::cuda::product {

/// A unit for each thread.
template<typename Format>
__global__ void __launch_bounds__(tileThreads) expandKernel(WeightView weight, int firstRow, int rows, uint4 *out)
{
    const int units = weight.columns / unitColumns;
    const auto at = static_cast<std::int64_t>(blockIdx.x) * tileThreads + static_cast<int>(threadIdx.x);
    if (at >= static_cast<std::int64_t>(rows) * units)
        return;
    const RowUnits<Format> row(weight, firstRow + static_cast<int>(at / units));
    const typename Units<Format>::Raw raw = row.at(static_cast<int>(at % units));
    const typename Units<Format>::Scales scales = Units<Format>::scales(raw, weight.factor);
#pragma unroll
    for (int part = 0; part < 4; ++part) {
        unsigned pairs[4];
        Units<Format>::expand(raw, scales, part, pairs);
        out[at * 4 + part] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    }
}

template<typename Format> void launchExpanded(const ProductLaunch &launch)
{
    const std::int64_t units = std::int64_t{launch.expandedRows} * (launch.weight.columns / unitColumns);
    const dim3 grid(static_cast<unsigned>((units + tileThreads - 1) / tileThreads));
    checkLaunch(simt::launch(expandKernel<Format>, grid, dim3(tileThreads), 0, launch.stream, launch.weight,
                             launch.firstRow, launch.expandedRows, launch.expanded),
                "expand");
}

/// Launches for the types of a list of formats. \returns whether the weight's is one
template<typename Formats> bool launchFor(Formats formats, const ProductLaunch &launch)
{
    return withFormat(formats, launch.weight.type, [&]<typename Format>() {
        if (launch.expanded != nullptr)
            return launchExpanded<Format>(launch);
        const auto run = [&](auto *kernel, int threads, int sharedBytes) {
            checkLaunch(simt::launch(kernel, launch.grid, dim3(static_cast<unsigned>(threads)),
                                     static_cast<std::size_t>(sharedBytes), launch.stream, launch.weight, launch.x,
                                     launch.target, launch.grouping),
                        "products");
        };
        const int segments = segmentsOf(launch.weight.columns);
        const auto runRows = [&](auto *kernel, int eights) {
            run(kernel, min(segments, mostRowWarps(eights)) * 32, rowSharedBytes(segments, eights));
        };
        if (launch.rowsOfTile == tileRows)
            run(tileProductsKernel<Format>, tileThreads, tileBytes<Format>);
        else if (launch.mostRows <= 8)
            runRows(rowProductsKernel<Format, 1>, 1);
        else
            runRows(rowProductsKernel<Format, 2>, 2);
    });
}

} // namespace kernels::cuda::product
