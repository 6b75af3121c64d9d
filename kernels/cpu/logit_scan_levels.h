// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// The seam between LogitScans and the files of its levels, which are compiled with flags of their own: declarations
/// only.
namespace kernels {

struct LogitScans;

void setLogitScansScalar(LogitScans &scans);
#if defined(__x86_64__)
void setLogitScansAvx2(LogitScans &scans);
void setLogitScansAvx512(LogitScans &scans);
#endif

} // namespace kernels
