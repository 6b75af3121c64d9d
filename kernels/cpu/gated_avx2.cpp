// SPDX-License-Identifier: GPL-3.0-or-later
// Activation functions and layer norm on AVX2.
#include "kernels/cpu/level.h"
#include "kernels/cpu/tiles_avx2.h"
#include "kernels/cpu/vector_avx2.h"

namespace kernels {

namespace {

/// x / (1 + exp(-s))
inline __attribute__((always_inline)) F timesSigmoid(F x, F s)
{
    const F minus = _mm256_xor_ps(s, _mm256_set1_ps(-0.0F));
    return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0F), exponential(minus)));
}

struct Silu {
    static F apply(F gate, F up) { return _mm256_mul_ps(timesSigmoid(gate, gate), up); }
};

// 0.5 x (1 + tanh(u)) = x sigmoid(2 u)
struct GeluTanh {
    static F apply(F gate, F up)
    {
        const F cubic = _mm256_mul_ps(_mm256_mul_ps(gate, gate), gate);
        const F inner = _mm256_fmadd_ps(_mm256_set1_ps(0.044715F), cubic, gate);
        const F twice = _mm256_mul_ps(_mm256_set1_ps(2.0F * 0.7978845608F), inner);
        return _mm256_mul_ps(timesSigmoid(gate, twice), up);
    }
};

struct Relu {
    static F apply(F gate, F up)
    {
        // The second operand wins when one is NaN.
        return _mm256_mul_ps(_mm256_max_ps(_mm256_setzero_ps(), gate), up);
    }
};

struct SwigluClamped {
    static F apply(F gate, F up)
    {
        const F seven = _mm256_set1_ps(7.0F);
        const F limited = _mm256_min_ps(seven, gate);
        const F factor = _mm256_max_ps(_mm256_set1_ps(-7.0F), _mm256_min_ps(seven, up));
        const F sigmoid = timesSigmoid(limited, _mm256_mul_ps(_mm256_set1_ps(1.702F), limited));
        return _mm256_mul_ps(_mm256_add_ps(factor, _mm256_set1_ps(1.0F)), sigmoid);
    }
};

template<typename Function> void gatedRow(const float *gate, const float *up, float *out, int n)
{
    const F one = _mm256_set1_ps(1.0F);
    for (int i = 0; i < n; i += 8) {
        if (n - i >= 8) {
            const F factor = up != nullptr ? _mm256_loadu_ps(up + i) : one;
            _mm256_storeu_ps(out + i, Function::apply(_mm256_loadu_ps(gate + i), factor));
            continue;
        }
        const I mask = firstOnes(n - i);
        const F factor = up != nullptr ? _mm256_maskload_ps(up + i, mask) : one;
        _mm256_maskstore_ps(out + i, mask, Function::apply(_mm256_maskload_ps(gate + i, mask), factor));
    }
}

double total(__m256d sums)
{
    const __m128d pair = _mm_add_pd(_mm256_castpd256_pd128(sums), _mm256_extractf128_pd(sums, 1));
    return _mm_cvtsd_f64(pair) + _mm_cvtsd_f64(_mm_unpackhi_pd(pair, pair));
}

struct Moments {
    double mean;
    double variance;
};

Moments momentsOf(const float *x, std::int64_t n)
{
    __m256d sums = _mm256_setzero_pd();
    std::int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        sums = _mm256_add_pd(sums, _mm256_cvtps_pd(_mm_loadu_ps(x + i)));
    double sum = total(sums);
    for (; i < n; ++i)
        sum += static_cast<double>(x[i]);
    const double mean = sum / static_cast<double>(n);
    __m256d squares = _mm256_setzero_pd();
    for (i = 0; i + 4 <= n; i += 4) {
        const __m256d distance = _mm256_sub_pd(_mm256_cvtps_pd(_mm_loadu_ps(x + i)), _mm256_set1_pd(mean));
        squares = _mm256_fmadd_pd(distance, distance, squares);
    }
    double square = total(squares);
    for (; i < n; ++i)
        square += (static_cast<double>(x[i]) - mean) * (static_cast<double>(x[i]) - mean);
    return {mean, square / static_cast<double>(n)};
}

void layerNormRow(const float *x, const float *weight, const float *bias, float epsilon, float *out, std::int64_t n)
{
    const Moments moments = momentsOf(x, n);
    const double factor = 1.0 / __builtin_sqrt(moments.variance + static_cast<double>(epsilon));
    for (std::int64_t i = 0; i < n; i += 4) {
        float value[4];
        const int count = n - i < 4 ? static_cast<int>(n - i) : 4;
        for (int j = 0; j < count; ++j)
            value[j] = static_cast<float>((static_cast<double>(x[i + j]) - moments.mean) * factor);
        for (int j = 0; j < count; ++j)
            out[i + j] = value[j] * (weight != nullptr ? weight[i + j] : 1.0F) + (bias != nullptr ? bias[i + j] : 0.0F);
    }
}

} // namespace

void addGatedKernelsAvx2(LevelKernels &kernels)
{
    kernels.gatedRows[0] = gatedRow<Silu>;
    kernels.gatedRows[1] = gatedRow<GeluTanh>;
    kernels.gatedRows[2] = scalarKernels().gatedRows[2]; // few models use it
    kernels.gatedRows[3] = gatedRow<Relu>;
    kernels.gatedRows[4] = gatedRow<SwigluClamped>;
    kernels.layerNormRow = layerNormRow;
}

} // namespace kernels
