// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/error.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <string>
#include <string_view>

namespace cli {

using Json = nlohmann::ordered_json;

/// A value on one line. Text that is no UTF-8 is written with U+FFFD.
[[nodiscard]] std::string jsonText(const Json &value);
/// One result line on standard output, flushed. \throws Error IoError when standard output cannot be written
void printJson(const Json &result);
void printText(std::string_view text);

/// `error: …` on one line of standard error.
void printError(std::string_view message);
void printWarning(std::string_view message);

/// Progress of a long step on standard error: a bar on a terminal, else at most one line a second; nothing when quiet.
class Progress {
public:
    Progress(std::string title, bool quiet);
    ~Progress();
    Progress(const Progress &) = delete;
    Progress &operator=(const Progress &) = delete;
    void update(double fraction, std::string_view stage);
    void finish();

private:
    std::string m_title;
    bool m_quiet;
    bool m_terminal;
    bool m_drawn = false;
    std::chrono::steady_clock::time_point m_last;
};

/// Exit code of a failure, as the command-line contract lists them.
[[nodiscard]] int exitCode(engine::ErrorCode code);

} // namespace cli
