// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <chrono>
#include <cstddef>

namespace serve {

/// What one client may cost. Nothing here depends on the model.
struct ServeLimits {
    std::size_t headerBytes = 32U << 10U; ///< request line and headers together
    int headerLines = 100;
    std::size_t bodyBytes = 4U << 20U;
    std::size_t refusedBodyBytes = 64U << 10U; ///< read of a body whose head is refused already
    std::size_t heldInputBytes = 64U << 10U;   ///< read ahead while an answer is made
    std::size_t outputBytes = 1U << 20U;       ///< of a stream that its reader has not taken
    std::size_t answerBytes = 64U << 20U;      ///< of an answer that is sent as a whole
    int connections = 4096;
    std::chrono::milliseconds idle{120'000};   ///< between two requests
    std::chrono::milliseconds stall{1'500};    ///< without a byte of a request that has begun
    std::chrono::milliseconds request{30'000}; ///< from the first to the last byte of a request
    std::chrono::milliseconds write{30'000};   ///< without a byte taken by the client
    std::chrono::milliseconds ping{15'000};    ///< a comment in a stream that is silent for so long
    std::chrono::milliseconds linger{1'000};   ///< for the client to close after a refusal
};

} // namespace serve
