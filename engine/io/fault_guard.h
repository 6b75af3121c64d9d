// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>

namespace engine {

struct MappingSlot;

/// Registers a mapping with the process's SIGBUS handler, which is installed at the first call. The pages of
/// [data, data + size) must be a mapping of the caller's; size is rounded up to whole pages.
[[nodiscard]] MappingSlot *guardMapping(const std::byte *data, std::size_t size);
/// True when a page of the mapping could not be read and was replaced by zeros.
[[nodiscard]] bool isDamaged(const MappingSlot *slot);
/// Ends the guard; called before the mapping is taken down.
void releaseGuard(MappingSlot *slot);

} // namespace engine
