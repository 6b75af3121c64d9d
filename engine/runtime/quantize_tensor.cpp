// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/quantize_tensor.h"

#include "engine/core/printable.h"
#include "kernels/quantize.h"

#include <algorithm>
#include <atomic>
#include <cmath>

namespace engine {

namespace {

constexpr std::int64_t partElements = std::int64_t{1} << 16; // of one part of the pool's work
constexpr std::int64_t partsAtOnce = 64;                     // then the bytes are written

/// A tensor as rows of its fastest dimension.
struct Rows {
    explicit Rows(const TensorInfo &tensor)
        : columns(tensor.shape.empty() ? 1 : tensor.shape.back())
        , bytes(kernels::rowBytes(tensor.type, columns))
    {
        for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i)
            count *= tensor.shape[i];
        perPart = std::max<std::int64_t>(1, partElements / columns);
    }

    std::int64_t columns;
    std::size_t bytes;
    std::int64_t count = 1;
    std::int64_t perPart = 1;
};

void throwIfStopped(const std::stop_token &stop)
{
    if (stop.stop_requested())
        throw Error(ErrorCode::Cancelled, "quantizing was cancelled");
}

std::vector<float> expandRows(const Checkpoint &checkpoint, const TensorInfo &tensor, const Rows &rows,
                              std::int64_t first, std::int64_t count)
{
    std::vector<float> values(static_cast<std::size_t>(count * rows.columns));
    kernels::dequantize(tensor.type, checkpoint.bytes(tensor).data() + static_cast<std::size_t>(first) * rows.bytes,
                        values.data(), count * rows.columns);
    return values;
}

/// Importance of the columns that row `row` of a stack of matrices meets; null when its expert was never met.
const float *weightsOfRow(const TensorConversion &conversion, const Rows &rows, std::int64_t row)
{
    const ChannelImportance *importance = conversion.importance;
    if (importance == nullptr)
        return nullptr;
    const auto experts = static_cast<std::int64_t>(importance->sums.size()) / rows.columns;
    const std::int64_t expert = experts > 1 ? row / (rows.count / experts) : 0;
    const float *sums = importance->sums.data() + expert * rows.columns;
    const bool met = std::any_of(sums, sums + rows.columns, [](float sum) { return sum > 0; });
    return met ? sums : nullptr;
}

} // namespace

RowQuantizer rowByRow()
{
    return [](const TensorConversion &conversion, std::int64_t, std::int64_t count, const float *rows,
              const float *weights, std::byte *target) {
        const std::int64_t columns = conversion.tensor.shape.empty() ? 1 : conversion.tensor.shape.back();
        const std::size_t bytes = kernels::rowBytes(conversion.target, columns);
        for (std::int64_t r = 0; r < count; ++r)
            kernels::quantizeRow(conversion.target, rows + r * columns, columns, weights,
                                 target + static_cast<std::size_t>(r) * bytes);
    };
}

float largestValue(const Checkpoint &checkpoint, const TensorInfo &tensor, kernels::ThreadPool &pool,
                   const std::stop_token &stop)
{
    const Rows rows(tensor);
    const std::int64_t parts = (rows.count + rows.perPart - 1) / rows.perPart;
    std::vector<float> largest(static_cast<std::size_t>(pool.threads()), 0.0F);
    pool.run(static_cast<int>(parts), [&](int part, int thread) {
        throwIfStopped(stop);
        const std::int64_t first = part * rows.perPart;
        const std::vector<float> values =
            expandRows(checkpoint, tensor, rows, first, std::min(rows.perPart, rows.count - first));
        float &most = largest[static_cast<std::size_t>(thread)];
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (!std::isfinite(values[i])) {
                const auto at = static_cast<std::int64_t>(i);
                throw Error(ErrorCode::Refused,
                            inQuotes(checkpoint.path()) + ": tensor " + inQuotes(tensor.name) + " holds "
                                + (std::isnan(values[i]) ? "NaN" : "an infinity") + " in row "
                                + std::to_string(first + at / rows.columns) + ", column "
                                + std::to_string(at % rows.columns) + ", wanted finite weights");
            }
            most = std::max(most, std::fabs(values[i]));
        }
    });
    return *std::max_element(largest.begin(), largest.end());
}

void writeConverted(const TensorConversion &conversion, const RowQuantizer &quantizer, kernels::ThreadPool &pool,
                    GgufWriter &writer, const std::stop_token &stop)
{
    const Rows rows(conversion.tensor);
    const std::size_t rowSize = kernels::rowBytes(conversion.target, rows.columns);
    const std::int64_t atOnce = rows.perPart * partsAtOnce;
    std::vector<std::byte> bytes;
    for (std::int64_t start = 0; start < rows.count; start += atOnce) {
        const std::int64_t count = std::min(atOnce, rows.count - start);
        bytes.resize(static_cast<std::size_t>(count) * rowSize);
        const auto parts = static_cast<int>((count + rows.perPart - 1) / rows.perPart);
        pool.run(parts, [&](int part, int) {
            throwIfStopped(stop);
            const std::int64_t end = std::min(start + (part + 1) * rows.perPart, start + count);
            for (std::int64_t row = start + part * rows.perPart; row < end;) {
                const float *weights = weightsOfRow(conversion, rows, row);
                std::int64_t next = row + 1; // rows of one expert go together
                while (next < end && weightsOfRow(conversion, rows, next) == weights)
                    ++next;
                const std::vector<float> values =
                    expandRows(conversion.checkpoint, conversion.tensor, rows, row, next - row);
                quantizer(conversion, row, next - row, values.data(), weights,
                          bytes.data() + static_cast<std::size_t>(row - start) * rowSize);
                row = next;
            }
        });
        writer.append(bytes);
    }
}

} // namespace engine
