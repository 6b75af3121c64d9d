// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/output.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace cli {
namespace {

void writeAll(std::string_view text)
{
    const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
    if (!written)
        throw engine::Error(engine::ErrorCode::IoError,
                            std::string("standard output could not be written: ") + std::strerror(errno));
}

/// Keeps a message on one line whatever a file name or template text holds.
std::string oneLine(std::string_view message)
{
    std::string line(message);
    for (char &c : line)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
            c = ' ';
    return line;
}

/// Escapes the line ends of Unicode (U+0085, U+2028, U+2029), which many readers split lines at; within JSON they
/// stand in strings only.
std::string onOneLine(const std::string &json)
{
    std::string line;
    line.reserve(json.size() + 1);
    for (std::size_t i = 0; i < json.size(); ++i) {
        const std::string_view rest = std::string_view(json).substr(i, 3);
        if (rest.starts_with("\xc2\x85")) {
            line += "\\u0085";
            i += 1;
        } else if (rest == "\xe2\x80\xa8" || rest == "\xe2\x80\xa9") {
            line += rest[2] == '\xa8' ? "\\u2028" : "\\u2029";
            i += 2;
        } else {
            line += json[i];
        }
    }
    return line;
}

} // namespace

std::string jsonText(const Json &value)
{
    return onOneLine(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void printJson(const Json &result)
{
    writeAll(jsonText(result) + '\n');
}

void printText(std::string_view text)
{
    writeAll(text);
}

void printError(std::string_view message)
{
    std::fprintf(stderr, "error: %s\n", oneLine(message).c_str());
}

void printWarning(std::string_view message)
{
    std::fprintf(stderr, "warning: %s\n", oneLine(message).c_str());
}

Progress::Progress(std::string title, bool quiet)
    : m_title(std::move(title))
    , m_quiet(quiet)
    , m_terminal(isatty(STDERR_FILENO) == 1)
    , m_last(std::chrono::steady_clock::now())
{
}

Progress::~Progress()
{
    finish();
}

void Progress::update(double fraction, std::string_view stage)
{
    const auto now = std::chrono::steady_clock::now();
    const auto interval = std::chrono::milliseconds(m_terminal ? 50 : 1000);
    if (m_quiet || now - m_last < interval)
        return;
    m_last = now;
    const int percent = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * 100.0);
    if (!m_terminal) {
        std::fprintf(stderr, "%s: %d %% %.*s\n", m_title.c_str(), percent, static_cast<int>(stage.size()),
                     stage.data());
        return;
    }
    constexpr int Width = 30;
    std::string bar(static_cast<std::size_t>(percent * Width / 100), '#');
    bar.resize(Width, '.');
    std::fprintf(stderr, "\r%s [%s] %3d %% %-20.*s", m_title.c_str(), bar.c_str(), percent,
                 static_cast<int>(stage.size()), stage.data());
    m_drawn = true;
}

void Progress::finish()
{
    if (m_drawn)
        std::fputs("\r\033[K", stderr);
    m_drawn = false;
}

int exitCode(engine::ErrorCode code)
{
    switch (code) {
    case engine::ErrorCode::InvalidArgument:
        return 2;
    case engine::ErrorCode::Refused:
        return 3;
    case engine::ErrorCode::OutOfMemory:
    case engine::ErrorCode::NoDevice:
        return 4;
    case engine::ErrorCode::Cancelled:
        return 130;
    case engine::ErrorCode::IoError:
    case engine::ErrorCode::Busy:
    case engine::ErrorCode::Internal:
        break;
    }
    return 1;
}

} // namespace cli
