// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/runtime/random.h"
#include "kernels/ops.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace engine {

/// The numbers of a test, the same each time.
class TestNumbers {
public:
    [[nodiscard]] double uniform() { return CounterRandom::uniform(1, m_drawn++); } ///< [0, 1)

private:
    std::uint64_t m_drawn = 0;
};

/// One backend during a test: numbers go to its memory and come back. Everything lives as long as this.
class SelfTestSide {
public:
    explicit SelfTestSide(kernels::Ops &ops)
        : m_ops(ops)
        , m_stream(ops.makeStream())
    {
    }

    [[nodiscard]] kernels::Ops &ops() { return m_ops; }
    [[nodiscard]] kernels::Stream &stream() { return *m_stream; }

    [[nodiscard]] std::byte *memory(std::size_t bytes);
    template<typename T> [[nodiscard]] T *upload(std::span<const T> values)
    {
        auto *target = reinterpret_cast<T *>(memory(values.size_bytes()));
        m_ops.transfer(values.data(), target, values.size_bytes(), *m_stream);
        m_stream->synchronize();
        return target;
    }
    /// [rows, columns] of numbers in [-1, 1); the same on every side that has drawn as often.
    [[nodiscard]] kernels::TensorView random(TestNumbers &random, std::int64_t rows, std::int64_t columns);
    [[nodiscard]] kernels::TensorView random(TestNumbers &random, std::int64_t rows, std::int64_t heads,
                                             std::int64_t n);
    [[nodiscard]] kernels::TensorView empty(std::int64_t rows, std::int64_t columns);
    [[nodiscard]] const float *randomRow(TestNumbers &random, std::int64_t columns);
    /// Random weights of a type that kernels::canQuantize, as parts of `partRows` rows.
    [[nodiscard]] const kernels::PackedWeight &weight(TestNumbers &random, kernels::DType type,
                                                      std::initializer_list<std::int64_t> partRows,
                                                      std::int64_t columns);
    /// W8A8 weights, a scale for each row; a part for each of `activationScales` (kernels::WeightPart).
    [[nodiscard]] const kernels::PackedWeight &int8Weight(TestNumbers &random,
                                                          std::initializer_list<float> activationScales,
                                                          std::int64_t partRows, std::int64_t columns);
    /// [rows, columns] of whole multiples of `unit`, the first two of every 32 the largest: `largest` times it.
    [[nodiscard]] kernels::TensorView multiples(TestNumbers &random, std::int64_t rows, std::int64_t columns,
                                                float unit, int largest);
    [[nodiscard]] std::vector<float> values(const kernels::TensorView &view);
    /// Whole numbers, as floats.
    [[nodiscard]] std::vector<float> numbers(const kernels::TensorView &view);

private:
    kernels::Ops &m_ops;
    std::unique_ptr<kernels::Stream> m_stream;
    std::vector<std::unique_ptr<kernels::Buffer>> m_buffers;
    std::vector<std::vector<std::byte>> m_sources; // the reference goes on reading them
    std::vector<std::unique_ptr<kernels::PackedWeight>> m_weights;
};

/// A test: what a side makes of numbers drawn from `random`.
struct SelfTestCase {
    std::string op;
    std::string dtype;
    std::string shape;
    double limit = 0;
    std::function<std::vector<float>(SelfTestSide &, TestNumbers &)> run;
    std::string skipped; ///< why the device does not do it; empty when it does
};

/// Products whose activations are rounded to int8 by the row, by the file's scale, and by those of experts.
void addInt8Cases(std::vector<SelfTestCase> &cases, const kernels::Ops &device);

/// Every operation, over the types that `device` takes; the others as skipped.
[[nodiscard]] std::vector<SelfTestCase> selfTestCases(const kernels::Ops &device);

} // namespace engine
