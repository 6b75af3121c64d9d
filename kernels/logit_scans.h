// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <string_view>

namespace kernels {

/// Passes over a whole vocabulary that a sampler makes, by the functions of one instruction level of the CPU backend.
///
/// Levels agree on peaks and on what gather() finds; sums and exponentials agree to within the errors named here, so
/// whoever decides by them must see to doubtful cases. Thread: any.
struct LogitScans {
    static constexpr std::size_t chunk = 256;
    static constexpr std::size_t roomBehind = 16; ///< that vectors may write behind what gather() found
    static constexpr double roughError = 1e-5;    ///< of a sum, as a share of it
    static constexpr double preciseError = 1e-13; ///< of an exponential, as a share of it

    /// peaks[c] = the largest of chunk c of x [n], NaN aside; -infinity where there is none. True when some x are NaN
    /// or +infinity.
    bool (*peaks)(const float *x, std::size_t n, float *peaks);
    /// Sum of exp((x[i] - peak) x factor), roughly. \pre x <= peak, peak is finite, 0 < factor <= 1000
    double (*roughSum)(const float *x, std::size_t n, float peak, float factor);
    /// The same in float64; terms below exp(-700) may count as 0.
    double (*preciseSum)(const float *x, std::size_t n, double peak, double factor);
    /// out[i] = exp((x[i] - peak) x factor) in float64; below exp(-700) it may be 0. Returns their sum. \pre x <= peak
    double (*exponentials)(const double *x, std::size_t n, double peak, double factor, double *out);
    /// places[i] = (peak - x[i]) x scale without its fraction, at most `last`. \pre x <= peak, scale >= 0
    void (*places)(const double *x, std::size_t n, double peak, double scale, int last, int *places);
    /// Writes i for every places[i] == place, ascending, to found [n]; returns how many.
    std::size_t (*positions)(const int *places, std::size_t n, int place, int *found);
    /// Writes first + i for every x[i] >= limit, ascending, to found, and x[i] to values; returns how many. \pre both
    /// have room for n + roomBehind
    std::size_t (*gather)(const float *x, std::size_t n, float limit, int first, int *found, double *values);
};

/// Those of a level: an option value as chooseIsa() takes it. Levels that improve nothing have those of the one below.
/// \throws Error as chooseIsa()
[[nodiscard]] const LogitScans &logitScans(std::string_view isa = "auto");

} // namespace kernels
