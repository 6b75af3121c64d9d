// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/peak.h"
#include "kernels/peak.h"

namespace engine {

PeakRates measurePeakRates(const std::string &isa, int threads)
{
    const kernels::PeakRates rates = kernels::measurePeak(isa, threads);
    return {rates.integer, rates.floating};
}

} // namespace engine
