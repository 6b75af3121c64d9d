// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/level_check.h"

#include "kernels/cpu/aligned_memory.h"
#include "kernels/cpu/level_choice.h"
#include "kernels/cpu/matmul.h"
#include "kernels/quantize.h"

#include <cmath>
#include <cstring>

namespace kernels {

namespace {

constexpr std::int64_t weightRows = 37;
constexpr std::int64_t weightColumns = 512;
constexpr std::int64_t tokens = 29; // a whole tile of 16 and a rest

/// Numbers of no pattern that a tile could hide.
std::vector<float> knownNumbers(std::int64_t count, std::uint32_t state)
{
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (float &number : numbers) {
        state = state * 1664525U + 1013904223U; // Numerical Recipes, section 7.1
        number = static_cast<float>(state >> 8U) / 8388608.0F - 1.0F;
    }
    return numbers;
}

std::vector<std::byte> knownWeights(DType type)
{
    const std::vector<float> numbers = knownNumbers(weightRows * weightColumns, 1);
    const std::size_t stride = rowBytes(type, weightColumns);
    std::vector<std::byte> bytes(static_cast<std::size_t>(weightRows) * stride);
    for (std::int64_t row = 0; row < weightRows; ++row)
        quantizeRow(type, numbers.data() + row * weightColumns, weightColumns, nullptr,
                    bytes.data() + static_cast<std::size_t>(row) * stride);
    return bytes;
}

std::vector<float> products(const LevelKernels &level, const PackedPanels &weight, ThreadPool &pool)
{
    std::vector<float> x = knownNumbers(tokens * weightColumns, 2);
    std::vector<float> out(static_cast<std::size_t>(tokens * weightRows));
    Matmul matmul(level, pool);
    matmul.linear(weight, makeView(x.data(), DType::F32, tokens, weightColumns),
                  makeView(out.data(), DType::F32, tokens, weightRows), nullptr, false);
    return out;
}

/// Products in bfloat16 of the first panel.
std::vector<float> bfloatProducts(const LevelKernels &level, const PackedPanels &weight)
{
    const std::vector<float> x = knownNumbers(tokens * weightColumns, 3);
    std::vector<std::uint16_t> rounded(x.size());
    level.roundBfloat(x.data(), static_cast<std::int64_t>(x.size()), rounded.data());
    AlignedMemory memories[4];
    PanelScratch scratch{};
    scratch.lines = memories[0].reserve<std::uint8_t>(std::size_t{quantSliceBlocks} * 8 * lineBytes);
    scratch.scales = memories[1].reserve<float>(std::size_t{2} * quantSliceBlocks * panelRows);
    scratch.mins = memories[2].reserve<float>(std::size_t{2} * quantSliceBlocks * panelRows);
    scratch.columns = memories[3].reserve<float>(std::size_t{floatSliceColumns} * panelRows);
    std::vector<float> out(static_cast<std::size_t>(tokens) * panelRows);
    const PackedPanels::Panel panel = weight.panel(0);
    level.bfloatPanel(*panel.layout, panel.data, rounded.data(), weightColumns, static_cast<int>(tokens), scratch,
                      out.data());
    return out;
}

/// Within what another order of sums changes.
bool isClose(const std::vector<float> &found, const std::vector<float> &wanted)
{
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (!(std::abs(found[i] - wanted[i]) < 1e-3F)) // sums of 512 products of numbers up to 1
            return false;
    }
    return true;
}

} // namespace

bool sameProducts(const LevelKernels &tested, const LevelKernels &trusted)
{
    ThreadPool pool(1);
    WeightArena arena;
    for (const DType type : {DType::Q4_0, DType::Q4_1, DType::Q8_0, DType::Q2_K, DType::Q6_K}) {
        const std::vector<std::byte> bytes = knownWeights(type);
        const WeightPart part{"known", type, weightRows, weightColumns, bytes.data()};
        const PackedPanels weight({&part, 1}, arena, pool);
        const std::vector<float> found = products(tested, weight, pool);
        const std::vector<float> wanted = products(trusted, weight, pool);
        if (std::memcmp(found.data(), wanted.data(), found.size() * sizeof(float)) != 0)
            return false;
    }
    return true;
}

CheckedLevel checkedTiles(const LevelKernels &tested, const LevelKernels &trusted, std::vector<std::string> *notes)
{
    if (sameProducts(tested, trusted))
        return {Isa::Amx, tested};
    if (notes != nullptr)
        notes->push_back("isa is lowered from amx to avx512-vnni, as this machine's tiles gave other products of known "
                         "numbers");
    return {Isa::Avx512Vnni, trusted};
}

CheckedLevel checkedLevel(Isa isa, std::vector<std::string> *notes)
{
    if (isa != Isa::Amx)
        return {isa, kernelsOf(isa)};
    return checkedTiles(kernelsOf(Isa::Amx), kernelsOf(Isa::Avx512Vnni), notes);
}

void addCheckedBfloatTiles(LevelKernels &level, void (*add)(LevelKernels &), std::vector<std::string> *notes)
{
    LevelKernels tested = level;
    add(tested);
    ThreadPool pool(1);
    WeightArena arena;
    for (const DType type : {DType::Q4_0, DType::Q2_K, DType::F16}) {
        const std::vector<std::byte> bytes = knownWeights(type);
        const WeightPart part{"known", type, weightRows, weightColumns, bytes.data()};
        const PackedPanels weight({&part, 1}, arena, pool);
        if (isClose(bfloatProducts(tested, weight), bfloatProducts(level, weight)))
            continue;
        if (notes != nullptr)
            notes->push_back("products in bfloat16 do without tiles, as this machine's gave others of known numbers");
        return;
    }
    level = tested;
}

} // namespace kernels
