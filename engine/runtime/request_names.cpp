// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/request.h"

namespace engine {

const char *toString(FinishReason reason)
{
    switch (reason) {
    case FinishReason::Stop:
        return "stop";
    case FinishReason::Length:
        return "length";
    case FinishReason::ContextFull:
        return "context";
    case FinishReason::Cancelled:
        return "cancelled";
    case FinishReason::Failed:
        return "error";
    }
    return "";
}

} // namespace engine
