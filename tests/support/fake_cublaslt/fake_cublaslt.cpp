// SPDX-License-Identifier: GPL-3.0-or-later
// A stand-in for libcublasLt.so on the memory of the host: matrices [rows, columns] that stand one column after the
// other, halves with results in float, an algorithm that has to come back as it was given. Products are computed at
// once, or by a queue that a test gives. FAKE_CUBLASLT_STATUS: what starting it gives.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>

namespace {

constexpr int InvalidValue = 7; // CUBLAS_STATUS_INVALID_VALUE
constexpr std::uint64_t Marker = 0x1a7be;
int g_products = 0;
int g_open = 0; // descriptions
/// Runs work in the order of a stream, at least once.
using Queue = void (*)(void *stream, const std::function<void()> &work);
Queue g_queue = [](void *, const std::function<void()> &work) { work(); };

struct Operation {
    int transposeA = 0;
};
struct Layout {
    int type;
    std::uint64_t rows, columns;
    std::int64_t stride;
};
struct Algorithm {
    std::uint64_t data[8];
};
struct Result {
    Algorithm algorithm;
    std::size_t workspaceBytes;
    int state;
    float waves;
    int reserved[4];
};

template<typename T> int destroy(void *object)
{
    delete static_cast<T *>(object);
    --g_open;
    return 0;
}

template<typename T> int make(void **object, const T &value)
{
    *object = new T(value);
    ++g_open;
    return 0;
}

float numberAt(const void *numbers, std::uint64_t index)
{
    std::uint16_t bits = 0;
    std::memcpy(&bits, static_cast<const std::uint16_t *>(numbers) + index, sizeof bits);
    const int exponent = bits >> 10 & 31;
    const int mantissa = bits & 1023;
    const float size =
        std::ldexp(static_cast<float>(exponent == 0 ? mantissa : mantissa + 1024), exponent == 0 ? -24 : exponent - 25);
    return (bits & 0x8000) != 0 ? -size : size;
}

/// Whether A (transposed), B and D fit together as halves and floats.
bool fits(const Operation &operation, const Layout &a, const Layout &b, const Layout &d)
{
    return operation.transposeA == 1 && a.type == 2 && b.type == 2 && d.type == 0 && a.rows == b.rows
        && a.columns == d.rows && b.columns == d.columns && a.stride >= static_cast<std::int64_t>(a.rows)
        && b.stride >= static_cast<std::int64_t>(b.rows) && d.stride >= static_cast<std::int64_t>(d.rows);
}

/// d = aᵀ b
void multiply(const Layout &a, const void *aNumbers, const Layout &b, const void *bNumbers, const Layout &d, float *out)
{
    for (std::uint64_t column = 0; column < d.columns; ++column) {
        for (std::uint64_t row = 0; row < d.rows; ++row) {
            double sum = 0.0;
            for (std::uint64_t k = 0; k < a.rows; ++k)
                sum += static_cast<double>(numberAt(aNumbers, row * static_cast<std::uint64_t>(a.stride) + k))
                    * static_cast<double>(numberAt(bNumbers, column * static_cast<std::uint64_t>(b.stride) + k));
            out[column * static_cast<std::uint64_t>(d.stride) + row] = static_cast<float>(sum);
        }
    }
}

} // namespace

extern "C" {

void fakeCublasLtQueueWith(Queue queue)
{
    g_queue = queue;
}

int fakeCublasLtProducts()
{
    return g_products;
}

int fakeCublasLtOpen()
{
    return g_open;
}

int cublasLtCreate(void **handle)
{
    const char *status = std::getenv("FAKE_CUBLASLT_STATUS");
    *handle = &g_products;
    return status != nullptr ? std::atoi(status) : 0;
}

int cublasLtDestroy(void *)
{
    return 0;
}

int cublasLtMatmulDescCreate(void **description, int compute, int scale)
{
    return compute == 68 && scale == 0 ? make(description, Operation()) : InvalidValue;
}

int cublasLtMatmulDescSetAttribute(void *description, int attribute, const void *value, std::size_t bytes)
{
    if (attribute != 3 || bytes != sizeof(int))
        return InvalidValue;
    std::memcpy(&static_cast<Operation *>(description)->transposeA, value, bytes);
    return 0;
}

int cublasLtMatmulDescDestroy(void *description)
{
    return destroy<Operation>(description);
}

int cublasLtMatrixLayoutCreate(void **layout, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t stride)
{
    return make(layout, Layout{type, rows, columns, stride});
}

int cublasLtMatrixLayoutDestroy(void *layout)
{
    return destroy<Layout>(layout);
}

int cublasLtMatmulPreferenceCreate(void **preference)
{
    return make(preference, std::uint64_t{0});
}

int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value, std::size_t bytes)
{
    if (attribute != 1 || bytes != sizeof(std::uint64_t))
        return InvalidValue;
    std::memcpy(preference, value, bytes);
    return 0;
}

int cublasLtMatmulPreferenceDestroy(void *preference)
{
    return destroy<std::uint64_t>(preference);
}

int cublasLtMatmulAlgoGetHeuristic(void *, void *operation, void *a, void *b, void *, void *d, void *preference,
                                   int wanted, Result *results, int *found)
{
    *found = 0;
    if (wanted < 1
        || !fits(*static_cast<Operation *>(operation), *static_cast<Layout *>(a), *static_cast<Layout *>(b),
                 *static_cast<Layout *>(d)))
        return InvalidValue;
    *results = Result{{{Marker}}, *static_cast<std::uint64_t *>(preference), 0, 1.0F, {}};
    *found = 1;
    return 0;
}

int cublasLtMatmul(void *, void *operation, const void *alpha, const void *a, void *aLayout, const void *b,
                   void *bLayout, const void *beta, const void *, void *, void *d, void *dLayout,
                   const Algorithm *algorithm, void *workspace, std::size_t workspaceBytes, void *stream)
{
    const Layout first = *static_cast<Layout *>(aLayout);
    const Layout second = *static_cast<Layout *>(bLayout);
    const Layout out = *static_cast<Layout *>(dLayout);
    float factors[2];
    std::memcpy(&factors[0], alpha, sizeof(float));
    std::memcpy(&factors[1], beta, sizeof(float));
    if (!fits(*static_cast<Operation *>(operation), first, second, out) || factors[0] != 1.0F || factors[1] != 0.0F
        || algorithm->data[0] != Marker || workspace == nullptr || workspaceBytes == 0)
        return InvalidValue;
    // Descriptions are gone by the time the work is done.
    g_queue(stream, [=] {
        std::memset(workspace, 0xff, workspaceBytes);
        multiply(first, a, second, b, out, static_cast<float *>(d));
        ++g_products;
    });
    return 0;
}

} // extern "C"
