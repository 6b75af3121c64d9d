// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cuda/launch.h"

/// Launchers for mixtures of experts, and for products where every head has a matrix of its own. Pointers are to device
/// memory, the weights' views and the pointers to biases too. What comes out for a row depends on that row alone.
namespace kernels::cuda {

// experts.cu
/// Router with the most experts that fit into a block's shared memory.
constexpr int mostRoutedExperts = 4096;
/// Ops::route; shape.selectionBias is on the device. ids [tokens, expertsUsed].
void launchRoute(const RowSpan &logits, const RouterShape &shape, int *ids, const RowSpan &weights,
                 StreamHandle stream);

/// Rows of one expert that a block multiplies; none when count is 0.
struct ExpertTile {
    int expert = 0;
    int first = 0; ///< in RowGroups::rows
    int count = 0;
};

/// Rows sorted by expert. How many tiles that makes is known on the device alone: the table is as long as the most.
struct RowGroups {
    int *rows = nullptr;         ///< [rowCount] numbers of rows, by expert, then ascending
    int *starts = nullptr;       ///< [experts + 1] where an expert's rows begin
    ExpertTile *tiles = nullptr; ///< [tileCount]
    int rowCount = 0;            ///< tokens x experts of a token
    int experts = 0;
    int tileRows = 16; ///< 16 or 64, a matter of speed alone
    int tileCount = 0;
};

/// Height of tiles that suits a step, from sizes alone.
[[nodiscard]] constexpr int tileRowsFor(int rowCount, int experts)
{
    return rowCount > 32 * experts ? 64 : 16;
}

/// The most tiles that rows of whatever experts make.
[[nodiscard]] constexpr int mostTiles(int rowCount, int experts, int tileRows)
{
    return rowCount / tileRows + (rowCount < experts ? rowCount : experts);
}

/// Fills rows, starts and tiles. ids [rowCount], each in [0, experts).
void launchGroupRows(const int *ids, const RowGroups &groups, StreamHandle stream);

/// What rows of experts are rounded with, where each expert has a scale of its own.
struct ExpertScales {
    const float *scales = nullptr; ///< [experts], each as the fixedScale of launchRound
    const int *ids = nullptr;      ///< [rows of the result], which expert
    int rowsPerToken = 1;
};

// quantize.cu
/// As launchRound; row r of the result is row r / rowsPerToken of x, for expert ids[r].
void launchRoundForExperts(const RowSpan &x, const ExpertScales &scales, const CastRows &out, StreamHandle stream);

/// One part (gate, up or down) of all experts. Experts of another type are left out: a launch for each type there is.
struct ExpertWeights {
    DType type = DType::F32;
    const WeightView *views = nullptr; ///< [experts]
    int rows = 0;                      ///< of each
    int columns = 0;                   ///< of each, as in the views
};

/// Where products of experts go: row r of `out` for row r, columns from firstColumn.
struct ExpertTarget {
    RowSpan out;
    int firstColumn = 0;
    const float *const *biases = nullptr; ///< [experts] or null; an expert's is added from element firstColumn on
};

/// out row r = row r / rowsPerToken of x times the weight of r's expert, transposed, for the types that launchProducts
/// knows.
void launchExpertProducts(const ExpertWeights &weights, const RowGroups &groups, const CastRows &x, int rowsPerToken,
                          const ExpertTarget &target, StreamHandle stream);
/// The same for F32.
void launchFloatExpertProducts(const ExpertWeights &weights, const RowGroups &groups, const RowSpan &x,
                               int rowsPerToken, const ExpertTarget &target, StreamHandle stream);

/// inout row t += weights[t, r] * products row t k + r, one r after the other by ascending expert. products [tokens x
/// k], ids [tokens, k], weights [tokens, k].
void launchCombine(const RowSpan &products, const int *ids, const RowSpan &weights, const RowSpan &inout,
                   StreamHandle stream);

/// Row t heads + h of out = row t heads + h of x times the weight of head h, transposed. x, out [tokens x heads] rows.
void launchHeadProducts(const ExpertWeights &weights, int heads, const CastRows &x, const RowSpan &out,
                        StreamHandle stream);
void launchFloatHeadProducts(const ExpertWeights &weights, int heads, const RowSpan &x, const RowSpan &out,
                             StreamHandle stream);

} // namespace kernels::cuda
