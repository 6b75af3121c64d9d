// SPDX-License-Identifier: GPL-3.0-or-later
// Stores keys and values; the bytes are those that storeKvRow (kernels/kv_layer.h) defines.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/reduce.cuh"

namespace kernels::cuda {

namespace {

constexpr int warps = 4;
constexpr int quantBlock = 32;
constexpr int copyThreads = 128;
constexpr int copiesOfThread = 4;

} // namespace

/// To nearest even; finite numbers beyond 448 become 448, infinity and NaN become NaN.
__device__ std::uint8_t e4m3Of(float value)
{
    const unsigned bits = __float_as_uint(value);
    const unsigned sign = bits >> 24 & 0x80U;
    unsigned rest = bits & 0x7fffffffU;
    if (rest >= 0x7f800000U)
        return static_cast<std::uint8_t>(sign | 0x7fU);
    rest = min(rest, __float_as_uint(448.0F));
    if (rest < 0x3c800000U) // below 2^-6: the adder rounds to steps of 2^-9, the spacing at 2^14
        return static_cast<std::uint8_t>(sign | (__float_as_uint(__uint_as_float(rest) + 16384.0F) & 0xffU));
    rest += 0x7ffffU + (rest >> 20 & 1U);
    return static_cast<std::uint8_t>(sign | (rest - (120U << 23)) >> 20); // bias 127 becomes 7
}

__device__ __forceinline__ bool isNan(float value)
{
    return (__float_as_uint(value) & 0x7fffffffU) > 0x7f800000U;
}

/// The instruction makes one NaN of all; stored rows keep sign and upper payload, as floatToHalf does.
__device__ __forceinline__ std::uint16_t halfOf(float value)
{
    const unsigned bits = __float_as_uint(value);
    if (isNan(value))
        return static_cast<std::uint16_t>((bits >> 16 & 0x8000U) | 0x7e00U | (bits >> 13 & 0x1ffU));
    return __half_as_ushort(__float2half_rn(value));
}

__device__ __forceinline__ std::uint16_t bf16Of(float value)
{
    if (isNan(value))
        return static_cast<std::uint16_t>(__float_as_uint(value) >> 16 | 0x40U);
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

/// One block of Q8_0 by a warp, an element for each lane.
__device__ void storeQuantBlock(const float *x, int count, std::byte *target)
{
    const int lane = static_cast<int>(threadIdx.x % 32);
    const float value = lane < count ? x[lane] : 0.0F;
    const bool finite = __all_sync(~0U, isFinite(value) ? 1 : 0) != 0;
    const float largest = warpMax(fabsf(value));
    constexpr std::uint16_t nan = 0x7e00;
    std::uint16_t bits = finite ? halfOf(largest / 127.0F) : nan;
    if (bits >= 0x7c00) // infinity: no half holds the scale
        bits = nan;
    const float scale = __half2float(__ushort_as_half(bits));
    const float inverse = scale > 0.0F ? 1.0F / scale : 0.0F; // 0 for NaN
    const float number = inverse > 0.0F ? fminf(fmaxf(rintf(value * inverse), -127.0F), 127.0F) : 0.0F;
    auto *bytes = reinterpret_cast<std::uint8_t *>(target);
    if (lane < 2)
        bytes[lane] = static_cast<std::uint8_t>(bits >> 8 * lane);
    bytes[2 + lane] = static_cast<std::uint8_t>(static_cast<std::int8_t>(number));
}

template<DType type> __device__ void storeElement(float value, std::byte *row, int i)
{
    if constexpr (type == DType::F32)
        reinterpret_cast<float *>(row)[i] = value;
    if constexpr (type == DType::F16)
        reinterpret_cast<std::uint16_t *>(row)[i] = halfOf(value);
    if constexpr (type == DType::BF16)
        reinterpret_cast<std::uint16_t *>(row)[i] = bf16Of(value);
    if constexpr (type == DType::E4M3)
        reinterpret_cast<std::uint8_t *>(row)[i] = e4m3Of(value);
}

/// One warp for each row.
template<DType type>
__global__ void __launch_bounds__(32 * warps) kvStoreKernel(RowSpan x, const int *slots, KvPlane plane)
{
    const int row = static_cast<int>(blockIdx.x * warps + threadIdx.x / 32);
    if (row >= x.rows)
        return;
    const int slot = slots[row / plane.heads];
    if (slot < 0)
        return; // a row that only fills its step
    const int place = row % plane.heads * plane.blockTokens + slot % plane.blockTokens;
    std::byte *target =
        plane.data + slot / plane.blockTokens * plane.blockStride + static_cast<std::int64_t>(place) * plane.rowBytes;
    const float *source = rowOf(x, row);
    if constexpr (type == DType::Q8_0) {
        for (int first = 0; first < plane.headDim; first += quantBlock)
            storeQuantBlock(source + first, plane.headDim - first, target + first / quantBlock * (quantBlock + 2));
    } else {
        for (int i = static_cast<int>(threadIdx.x % 32); i < plane.headDim; i += 32)
            storeElement<type>(source[i], target, i);
    }
}

/// One V for each thread and turn; what is left is for the first block. Both ends are aligned as V is.
template<typename V>
__global__ void __launch_bounds__(copyThreads) copyBytesKernel(const std::byte *from, std::byte *to, std::int64_t bytes)
{
    constexpr std::int64_t size = sizeof(V);
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * copyThreads * size;
    const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * copyThreads + threadIdx.x) * size;
    for (std::int64_t at = first; at + size <= bytes; at += step)
        ptx::store<V>(to + at, ptx::load<V>(from + at));
    if (blockIdx.x == 0 && threadIdx.x < bytes % size)
        to[bytes / size * size + threadIdx.x] = from[bytes / size * size + threadIdx.x];
}

template<DType type> void launchStoreAs(const RowSpan &x, const int *slots, const KvPlane &plane, StreamHandle stream)
{
    checkLaunch(simt::launch(kvStoreKernel<type>, dim3(static_cast<unsigned>((x.rows + warps - 1) / warps)),
                             dim3(32 * warps), 0, stream, x, slots, plane),
                "kvStore");
}

void launchKvStore(const RowSpan &x, const int *slots, const KvPlane &plane, StreamHandle stream)
{
    if (x.rows == 0)
        return;
    switch (plane.type) {
    case DType::F16:
        return launchStoreAs<DType::F16>(x, slots, plane, stream);
    case DType::BF16:
        return launchStoreAs<DType::BF16>(x, slots, plane, stream);
    case DType::Q8_0:
        return launchStoreAs<DType::Q8_0>(x, slots, plane, stream);
    case DType::E4M3:
        return launchStoreAs<DType::E4M3>(x, slots, plane, stream);
    default:
        return launchStoreAs<DType::F32>(x, slots, plane, stream);
    }
}

void launchCopyBytes(const std::byte *from, std::byte *to, std::size_t bytes, StreamHandle stream)
{
    if (bytes == 0)
        return;
    const auto both = reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to);
    const bool wide = both % sizeof(uint4) == 0; // not so where rows of odd widths meet
    const std::size_t bytesOfBlock = copyThreads * copiesOfThread * (wide ? sizeof(uint4) : 1);
    const dim3 grid(static_cast<unsigned>((bytes + bytesOfBlock - 1) / bytesOfBlock));
    checkLaunch(simt::launch(wide ? copyBytesKernel<uint4> : copyBytesKernel<std::uint8_t>, grid, dim3(copyThreads), 0,
                             stream, from, to, static_cast<std::int64_t>(bytes)),
                "copyBytes");
}

} // namespace kernels::cuda
