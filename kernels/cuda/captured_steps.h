// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cuda/step_arena.h"

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

/// What a stream needs to queue steps as graphs: a graph knows addresses, so whatever it reads stands where it stood
/// when it was captured.
namespace kernels::cuda {

/// Places for the inputs of a step, the same in every step of a shape; one copy brings them all.
class FixedInputs {
public:
    explicit FixedInputs(Runtime &runtime)
        : m_runtime(runtime)
    {
    }

    /// Counts the room for the inputs of a step that is planned.
    void plan(StepInputs inputs);
    /// Makes that room. \pre the device is idle
    void reserve();
    /// Brings them to their places. Without room for them nothing happens, and false is returned.
    [[nodiscard]] bool place(StepInputs inputs, StreamHandle stream);
    /// The place of an input of the last step, or nothing for other bytes. Null or anything while it is only planned.
    [[nodiscard]] std::optional<const std::byte *> find(std::span<const std::byte> bytes) const;

private:
    struct Place {
        std::span<const std::byte> host;
        std::size_t first = 0; ///< byte
    };
    /// Notes where each goes; returns the bytes of all.
    std::size_t arrange(StepInputs inputs);

    Runtime &m_runtime;
    std::unique_ptr<Buffer> m_device;
    std::unique_ptr<Buffer> m_staging;
    std::vector<Place> m_places;
    std::size_t m_most = 0;
};

/// What operations of steps read besides their inputs, the same in every step of a shape: kept on the device. Bytes
/// that a longer array begins with are a part of it, as tables of tiles are of a larger step's.
class StepConstants {
public:
    explicit StepConstants(Runtime &runtime)
        : m_runtime(runtime)
        , m_memory(runtime, Arena::Kind::Device)
    {
    }

    /// Where the bytes stand; null while they are counted. \throws Error OutOfMemory, or Internal for bytes that are
    /// new in a captured step
    [[nodiscard]] const std::byte *put(std::span<const std::byte> bytes, bool counting, bool captured,
                                       StreamHandle stream);
    /// Forgets all. Afterwards there is room for what was counted. \pre the device is idle
    void restart();

private:
    struct Constant {
        std::vector<std::byte> host;
        std::byte *device = nullptr;
    };
    Runtime &m_runtime;
    Arena m_memory;
    std::vector<Constant> m_constants;
};

/// The graphs of the shapes used last.
class StepGraphs {
public:
    static constexpr std::size_t most = 64;

    /// Null where there is none.
    [[nodiscard]] const Graph *find(const StepShape &shape);
    void keep(const StepShape &shape, std::unique_ptr<Graph> graph);
    void clear() { m_graphs.clear(); }

private:
    std::vector<std::pair<StepShape, std::unique_ptr<Graph>>> m_graphs; ///< the last one was used last
};

} // namespace kernels::cuda
