// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/serve/client_name.h"

#include <algorithm>

namespace serve {
namespace {

constexpr std::size_t mostBytes = 32;

bool isControl(char c)
{
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
}

/// The first characters, whole ones of UTF-8.
std::string shortened(std::string_view text)
{
    std::size_t end = std::min(text.size(), mostBytes);
    while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U)
        --end;
    std::string name(text.substr(0, end));
    std::erase_if(name, isControl);
    return name;
}

} // namespace

std::string clientName(std::string_view userAgent, std::string_view user)
{
    std::string program = shortened(userAgent.substr(0, userAgent.find_first_of("/ ;(")));
    // Headers may hold bytes of any encoding.
    std::erase_if(program, [](char c) { return (static_cast<unsigned char>(c) & 0x80U) != 0; });
    const std::string who = shortened(user);
    if (program.empty())
        return who.empty() ? "client" : who;
    return who.empty() ? program : program + ", " + who;
}

} // namespace serve
