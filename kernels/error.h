// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace kernels {

/// What kind of failure an Error is; the command line maps it to an exit code, the window to an action.
enum class ErrorCode {
    InvalidArgument, ///< wrong usage of an option or parameter (exit 2)
    Refused,         ///< a file, prompt or request that is broken or not supported (exit 3)
    OutOfMemory,     ///< not enough memory; the message names bytes asked for and free (exit 4)
    NoDevice,        ///< no such device or instruction set (exit 4)
    IoError,         ///< the operating system refused to read or write (exit 1, or 3 while a model is opened)
    Cancelled,       ///< stopped on request (exit 130)
    Busy,            ///< a queue is full; the same request may be taken later (exit 1)
    Internal,        ///< a broken invariant, a fault of ours (exit 1)
};

/// The one exception of kernels and engine. The message is one sentence that names what, where, found and wanted.
class Error : public std::runtime_error {
public:
    Error(ErrorCode code, const std::string &message)
        : std::runtime_error(message)
        , m_code(code)
    {
    }

    [[nodiscard]] ErrorCode code() const { return m_code; }

private:
    ErrorCode m_code;
};

[[noreturn]] void failCheck(const char *condition, const char *file, int line);

} // namespace kernels

/// Always-on check of an invariant of ours (never of file content); throws Error Internal.
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            ::kernels::failCheck(#condition, __FILE__, __LINE__);                                                      \
    } while (false)
