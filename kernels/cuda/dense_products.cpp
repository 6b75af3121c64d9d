// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/dense_products.h"

#include "kernels/cuda/block_planes.h"
#include "kernels/cuda/device_views.h"
#include "kernels/cuda/packed_matrix.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace kernels::cuda {

namespace {

/// Of the trial.
constexpr int trialSize = 4096;
constexpr std::array<int, 6> trialRows{64, 128, 256, 512, 1024, 2048};

/// Weights and activations of the trial on the device: zeros, which take as long as others.
class Trial {
public:
    Trial(Runtime &runtime, DenseProducts &dense)
        : m_dense(dense)
        , m_stream(runtime)
    {
        constexpr BlockPlanes planes = planesOf(DType::Q4_K);
        constexpr std::size_t blocks = std::size_t{trialSize} * trialSize / planes.elements;
        constexpr int most = trialRows.back();
        m_weight = {DType::Q4_K,
                    memory(runtime, blocks * planes.bodyBytes),
                    memory(runtime, blocks * planes.headBytes),
                    trialSize,
                    trialSize,
                    1.0F};
        m_numbers = memory(runtime, std::size_t{most} * trialSize * sizeof(std::uint16_t));
        m_scales = memory(runtime, std::size_t{most} * sizeof(float));
        m_out = memory(runtime, std::size_t{most} * trialSize * sizeof(float));
        m_room = m_dense.roomFor(most, trialSize, m_stream);
    }

    /// The best of some, after one that nobody times.
    [[nodiscard]] double seconds(int rows, bool dense)
    {
        double best = 0.0;
        for (int i = 0; i < 4; ++i) {
            const auto start = std::chrono::steady_clock::now();
            multiply(rows, dense);
            m_stream.wait();
            const double taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
            best = i < 2 ? taken : std::min(best, taken);
        }
        return best;
    }

private:
    std::byte *memory(Runtime &runtime, std::size_t bytes)
    {
        m_memory.push_back(runtime.allocate(bytes));
        return m_memory.back()->data();
    }

    void multiply(int rows, bool dense)
    {
        const CastRows x{m_numbers, reinterpret_cast<float *>(m_scales), rows, trialSize, 1};
        const ProductTarget target{denseRows(reinterpret_cast<float *>(m_out), rows, trialSize), nullptr, false};
        if (dense)
            m_dense.multiply(m_weight, x, target, m_room, m_stream);
        else
            launch(m_stream, [&](StreamHandle handle) { launchProducts(m_weight, x, target, handle); });
    }

    DenseProducts &m_dense;
    DeviceStream m_stream;
    std::vector<std::unique_ptr<Buffer>> m_memory;
    WeightView m_weight;
    std::byte *m_numbers = nullptr;
    std::byte *m_scales = nullptr;
    std::byte *m_out = nullptr;
    DenseProducts::Room m_room;
};

} // namespace

bool DenseProducts::isDense(DType type)
{
    return type != DType::F32 && !wantsBf16(type) && !wantsInt8(type);
}

DenseProducts::Room DenseProducts::roomFor(int rows, int columns, DeviceStream &stream) const
{
    Room room;
    room.columns = columns;
    room.pieceFeatures = std::max(16, m_pieceBytes / 2 / columns / 16 * 16);
    room.weights = stream.take<std::uint16_t>(std::int64_t{room.pieceFeatures} * columns);
    room.sums = stream.take<float>(std::int64_t{rows} * room.pieceFeatures);
    room.library = stream.take<std::byte>(static_cast<std::int64_t>(CublasLt::workspaceBytes));
    return room;
}

void DenseProducts::multiply(const WeightView &weight, const CastRows &x, const ProductTarget &target, const Room &room,
                             DeviceStream &stream)
{
    CHECK(isDense(weight.type) && room.columns == weight.columns && x.columns == weight.columns);
    for (int first = 0; first < weight.rows; first += room.pieceFeatures) {
        const int features = std::min(room.pieceFeatures, weight.rows - first);
        ProductTarget own = target;
        own.out.data += first;
        own.out.columns = features;
        if (own.bias != nullptr)
            own.bias += first;
        launch(stream, [&](StreamHandle handle) {
            launchExpand(weight, first, features, room.weights, handle);
            m_library->multiply({room.weights, features, x.numbers, x.rows, weight.columns, room.sums}, room.library,
                                handle);
            launchFinishProducts(room.sums, weight.factor, x, own, handle);
        });
    }
}

int fasterFromRows(const ProductTimer &seconds)
{
    int from = 0;
    for (const int rows : trialRows) {
        const bool faster = seconds(rows, true) < seconds(rows, false);
        if (!faster)
            from = 0;
        else if (from == 0)
            from = rows;
    }
    return from;
}

ProductTimer timerOn(Runtime &runtime, DenseProducts &dense)
{
    return [trial = std::make_shared<Trial>(runtime, dense)](int rows, bool byLibrary) {
        return trial->seconds(rows, byLibrary);
    };
}

} // namespace kernels::cuda
