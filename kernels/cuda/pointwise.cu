// SPDX-License-Identifier: GPL-3.0-or-later
// Operations on single elements of rows.
#include "kernels/cuda/device.cuh"

namespace kernels::cuda {

namespace {

constexpr int threads = 128;

} // namespace

/// Calls change(element, row, column) for every element; one block for each row.
template<typename Change> __global__ void __launch_bounds__(threads) changeRowsKernel(RowSpan inout, Change change)
{
    const int row = static_cast<int>(blockIdx.x);
    float *elements = rowOf(inout, row);
    for (int column = static_cast<int>(threadIdx.x); column < inout.columns; column += threads)
        change(elements[column], row, column);
}

template<typename Change>
void launchChange(const RowSpan &inout, const Change &change, const char *name, StreamHandle stream)
{
    if (inout.rows > 0 && inout.columns > 0)
        checkLaunch(simt::launch(changeRowsKernel<Change>, dim3(static_cast<unsigned>(inout.rows)), dim3(threads), 0,
                                 stream, inout, change),
                    name);
}

struct Zero {
    __device__ void operator()(float &element, int, int) const { element = 0.0F; }
};

struct Copy {
    RowSpan x;
    __device__ void operator()(float &element, int row, int column) const { element = rowOf(x, row)[column]; }
};

struct Add {
    RowSpan x;
    __device__ void operator()(float &element, int row, int column) const { element += rowOf(x, row)[column]; }
};

struct GatedAdd {
    RowSpan x;
    RowSpan gate;
    __device__ void operator()(float &element, int row, int column) const
    {
        const float factor = 1.0F / (1.0F + expf(-rowOf(gate, row)[0]));
        element = fmaf(factor, rowOf(x, row)[column], element);
    }
};

struct Scale {
    float factor;
    __device__ void operator()(float &element, int, int) const { element *= factor; }
};

struct SoftCap {
    float cap;
    __device__ void operator()(float &element, int, int) const { element = cap * tanhf(element / cap); }
};

struct Clamp {
    float limit;
    __device__ void operator()(float &element, int, int) const
    {
        element = element > limit ? limit : element < -limit ? -limit : element;
    }
};

struct Gather {
    RowSpan x;
    const int *rows;
    __device__ void operator()(float &element, int row, int column) const { element = rowOf(x, rows[row])[column]; }
};

template<Activation activation> __device__ float activated(float value)
{
    if constexpr (activation == Activation::Silu)
        return value / (1.0F + expf(-value));
    if constexpr (activation == Activation::GeluTanh) {
        constexpr float rootOfTwoOverPi = 0.7978845608028654F;
        return 0.5F * value * (1.0F + tanhf(rootOfTwoOverPi * fmaf(0.044715F * value * value, value, value)));
    }
    if constexpr (activation == Activation::GeluErf)
        return 0.5F * value * (1.0F + erff(value * 0.7071067811865476F));
    return fmaxf(value, 0.0F);
}

template<Activation activation> __device__ float gated(float gate, float up)
{
    if constexpr (activation != Activation::SwigluClamped) {
        return activated<activation>(gate) * up;
    } else {
        const float limited = fminf(gate, 7.0F);
        return (fminf(fmaxf(up, -7.0F), 7.0F) + 1.0F) * limited / (1.0F + expf(-1.702F * limited));
    }
}

template<Activation activation> struct Activate {
    __device__ void operator()(float &element, int, int) const { element = activated<activation>(element); }
};

template<Activation activation> struct Gate {
    RowSpan products;
    int width;
    __device__ void operator()(float &element, int row, int column) const
    {
        const float *source = rowOf(products, row);
        element = gated<activation>(source[column], source[width + column]);
    }
};

void launchZero(const RowSpan &out, StreamHandle stream)
{
    launchChange(out, Zero{}, "zero", stream);
}

void launchCopy(const RowSpan &x, const RowSpan &out, StreamHandle stream)
{
    launchChange(out, Copy{x}, "copy", stream);
}

void launchAdd(const RowSpan &x, const RowSpan &inout, StreamHandle stream)
{
    launchChange(inout, Add{x}, "add", stream);
}

void launchGatedAdd(const RowSpan &x, const RowSpan &gate, const RowSpan &inout, StreamHandle stream)
{
    launchChange(inout, GatedAdd{x, gate}, "gatedAdd", stream);
}

void launchScale(const RowSpan &inout, float factor, StreamHandle stream)
{
    launchChange(inout, Scale{factor}, "scale", stream);
}

void launchSoftCap(const RowSpan &inout, float cap, StreamHandle stream)
{
    launchChange(inout, SoftCap{cap}, "softCap", stream);
}

void launchClamp(const RowSpan &inout, float limit, StreamHandle stream)
{
    launchChange(inout, Clamp{limit}, "clamp", stream);
}

void launchGather(const RowSpan &x, const int *rows, const RowSpan &out, StreamHandle stream)
{
    launchChange(out, Gather{x, rows}, "gather", stream);
}

/// Calls use.operator()<activation>() with the constant.
template<typename Use> void withActivation(Activation activation, Use use)
{
    switch (activation) {
    case Activation::Silu:
        return use.template operator()<Activation::Silu>();
    case Activation::GeluTanh:
        return use.template operator()<Activation::GeluTanh>();
    case Activation::GeluErf:
        return use.template operator()<Activation::GeluErf>();
    case Activation::Relu:
        return use.template operator()<Activation::Relu>();
    case Activation::SwigluClamped:
        return use.template operator()<Activation::SwigluClamped>();
    }
}

void launchActivate(Activation activation, const RowSpan &inout, StreamHandle stream)
{
    withActivation(activation,
                   [&]<Activation constant>() { launchChange(inout, Activate<constant>{}, "activate", stream); });
}

void launchGate(Activation activation, const RowSpan &products, const RowSpan &out, StreamHandle stream)
{
    withActivation(activation, [&]<Activation constant>() {
        launchChange(out, Gate<constant>{products, out.columns}, "gate", stream);
    });
}

} // namespace kernels::cuda
