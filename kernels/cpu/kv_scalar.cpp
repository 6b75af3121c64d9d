// SPDX-License-Identifier: GPL-3.0-or-later
// Stored keys and values by their definition, for the scalar level.
#include "kernels/cpu/level.h"
#include "kernels/error.h"
#include "kernels/kv_layer.h"

#include <algorithm>

namespace kernels {

namespace {

constexpr int mostElements = 1024; // of a head (AttentionShape)

DType dtypeOf(KvValues values)
{
    switch (values) {
    case KvValues::Half:
        return DType::F16;
    case KvValues::Brain:
        return DType::BF16;
    case KvValues::Quant8:
        return DType::Q8_0;
    case KvValues::E4m3:
        return DType::E4M3;
    case KvValues::Float:
        break;
    }
    return DType::F32;
}

void storeKv(KvValues values, const float *x, int n, void *target)
{
    storeKvRow(dtypeOf(values), x, n, static_cast<std::byte *>(target));
}

void expandPosition(const KvTile &tile, int position, int n, float *target)
{
    CHECK(n <= mostElements);
    const auto *group = static_cast<const std::byte *>(tile.groups[position / kvGroupKeys]);
    expandKvRow(dtypeOf(tile.values), group + position % kvGroupKeys * tile.rowBytes, n, target);
}

void loadKeys(const KvTile &tile, int groups, int n, float *target)
{
    float row[mostElements + kvGroupKeys] = {};
    for (int position = 0; position < groups * kvGroupKeys; ++position) {
        expandPosition(tile, position, n, row);
        for (int i = 0; i < (n + 7) / 8 * 8; ++i)
            target[i * kvTileKeys + position] = i < n ? row[i] : 0.0F;
    }
}

void loadValues(const KvTile &tile, int count, int n, float *target, std::int64_t stride)
{
    for (int position = 0; position < count; ++position) {
        float *row = target + position * stride;
        expandPosition(tile, position, n, row);
        std::fill(row + n, row + stride, 0.0F);
    }
}

} // namespace

void addKvKernelsScalar(LevelKernels &kernels)
{
    kernels.storeKv = storeKv;
    kernels.loadKeys = loadKeys;
    kernels.loadValues = loadValues;
}

} // namespace kernels
