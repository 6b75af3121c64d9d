// SPDX-License-Identifier: GPL-3.0-or-later
// A stand-in for libnccl.so.2. FAKE_NCCL_VERSION is what it says, FAKE_NCCL_ERROR what it fails with.
#include <cstdlib>

namespace {

int number(const char *name)
{
    const char *text = std::getenv(name);
    return text ? std::atoi(text) : 0;
}

} // namespace

extern "C" {

int ncclGetVersion(int *version)
{
    *version = number("FAKE_NCCL_VERSION");
    return number("FAKE_NCCL_ERROR");
}
const char *ncclGetErrorString(int)
{
    return "unhandled system error";
}
}
