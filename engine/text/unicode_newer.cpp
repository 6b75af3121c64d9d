// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/unicode_newer.h"

#include "engine/text/utf8.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

namespace engine::unicode_newer {
namespace {

struct Range {
    char32_t first;
    char32_t last;
    std::string_view category; ///< marks, punctuation and symbols by their group letter
};

// Unicode Character Database, general categories: what version 16.0 has beyond 14.0, in order.
constexpr std::array<Range, 115> added{{
    {0x897, 0x897, "M"},      {0xCF3, 0xCF3, "M"},      {0xECE, 0xECE, "M"},      {0x1B4E, 0x1B4F, "P"},
    {0x1B7F, 0x1B7F, "P"},    {0x1C89, 0x1C89, "Lu"},   {0x1C8A, 0x1C8A, "Ll"},   {0x2427, 0x2429, "S"},
    {0x2FFC, 0x2FFF, "S"},    {0x31E4, 0x31E5, "S"},    {0x31EF, 0x31EF, "S"},    {0xA7CB, 0xA7CC, "Lu"},
    {0xA7CD, 0xA7CD, "Ll"},   {0xA7DA, 0xA7DA, "Lu"},   {0xA7DB, 0xA7DB, "Ll"},   {0xA7DC, 0xA7DC, "Lu"},
    {0x105C0, 0x105F3, "Lo"}, {0x10D40, 0x10D49, "Nd"}, {0x10D4A, 0x10D4D, "Lo"}, {0x10D4E, 0x10D4E, "Lm"},
    {0x10D4F, 0x10D4F, "Lo"}, {0x10D50, 0x10D65, "Lu"}, {0x10D69, 0x10D6D, "M"},  {0x10D6E, 0x10D6E, "P"},
    {0x10D6F, 0x10D6F, "Lm"}, {0x10D70, 0x10D85, "Ll"}, {0x10D8E, 0x10D8F, "S"},  {0x10EC2, 0x10EC4, "Lo"},
    {0x10EFC, 0x10EFF, "M"},  {0x1123F, 0x11240, "Lo"}, {0x11241, 0x11241, "M"},  {0x11380, 0x11389, "Lo"},
    {0x1138B, 0x1138B, "Lo"}, {0x1138E, 0x1138E, "Lo"}, {0x11390, 0x113B5, "Lo"}, {0x113B7, 0x113B7, "Lo"},
    {0x113B8, 0x113C0, "M"},  {0x113C2, 0x113C2, "M"},  {0x113C5, 0x113C5, "M"},  {0x113C7, 0x113CA, "M"},
    {0x113CC, 0x113D0, "M"},  {0x113D1, 0x113D1, "Lo"}, {0x113D2, 0x113D2, "M"},  {0x113D3, 0x113D3, "Lo"},
    {0x113D4, 0x113D5, "P"},  {0x113D7, 0x113D8, "P"},  {0x113E1, 0x113E2, "M"},  {0x116D0, 0x116E3, "Nd"},
    {0x11B00, 0x11B09, "P"},  {0x11BC0, 0x11BE0, "Lo"}, {0x11BE1, 0x11BE1, "P"},  {0x11BF0, 0x11BF9, "Nd"},
    {0x11F00, 0x11F01, "M"},  {0x11F02, 0x11F02, "Lo"}, {0x11F03, 0x11F03, "M"},  {0x11F04, 0x11F10, "Lo"},
    {0x11F12, 0x11F33, "Lo"}, {0x11F34, 0x11F3A, "M"},  {0x11F3E, 0x11F42, "M"},  {0x11F43, 0x11F4F, "P"},
    {0x11F50, 0x11F59, "Nd"}, {0x11F5A, 0x11F5A, "M"},  {0x1342F, 0x1342F, "Lo"}, {0x13440, 0x13440, "M"},
    {0x13441, 0x13446, "Lo"}, {0x13447, 0x13455, "M"},  {0x13460, 0x143FA, "Lo"}, {0x16100, 0x1611D, "Lo"},
    {0x1611E, 0x1612F, "M"},  {0x16130, 0x16139, "Nd"}, {0x16D40, 0x16D42, "Lm"}, {0x16D43, 0x16D6A, "Lo"},
    {0x16D6B, 0x16D6C, "Lm"}, {0x16D6D, 0x16D6F, "P"},  {0x16D70, 0x16D79, "Nd"}, {0x18CFF, 0x18CFF, "Lo"},
    {0x1B132, 0x1B132, "Lo"}, {0x1B155, 0x1B155, "Lo"}, {0x1CC00, 0x1CCEF, "S"},  {0x1CCF0, 0x1CCF9, "Nd"},
    {0x1CD00, 0x1CEB3, "S"},  {0x1D2C0, 0x1D2D3, "No"}, {0x1DF25, 0x1DF2A, "Ll"}, {0x1E030, 0x1E06D, "Lm"},
    {0x1E08F, 0x1E08F, "M"},  {0x1E4D0, 0x1E4EA, "Lo"}, {0x1E4EB, 0x1E4EB, "Lm"}, {0x1E4EC, 0x1E4EF, "M"},
    {0x1E4F0, 0x1E4F9, "Nd"}, {0x1E5D0, 0x1E5ED, "Lo"}, {0x1E5EE, 0x1E5EF, "M"},  {0x1E5F0, 0x1E5F0, "Lo"},
    {0x1E5F1, 0x1E5FA, "Nd"}, {0x1E5FF, 0x1E5FF, "P"},  {0x1F6DC, 0x1F6DC, "S"},  {0x1F774, 0x1F776, "S"},
    {0x1F77B, 0x1F77F, "S"},  {0x1F7D9, 0x1F7D9, "S"},  {0x1F8B2, 0x1F8BB, "S"},  {0x1F8C0, 0x1F8C1, "S"},
    {0x1FA75, 0x1FA77, "S"},  {0x1FA87, 0x1FA89, "S"},  {0x1FA8F, 0x1FA8F, "S"},  {0x1FAAD, 0x1FAAF, "S"},
    {0x1FABB, 0x1FABF, "S"},  {0x1FAC6, 0x1FAC6, "S"},  {0x1FACE, 0x1FACF, "S"},  {0x1FADA, 0x1FADC, "S"},
    {0x1FADF, 0x1FADF, "S"},  {0x1FAE8, 0x1FAE9, "S"},  {0x1FAF7, 0x1FAF8, "S"},  {0x1FBCB, 0x1FBEF, "S"},
    {0x2B739, 0x2B739, "Lo"}, {0x2EBF0, 0x2EE5D, "Lo"}, {0x31350, 0x323AF, "Lo"},
}};

bool isNewer(char32_t code)
{
    const auto found = std::lower_bound(added.begin(), added.end(), code,
                                        [](const Range &range, char32_t wanted) { return range.last < wanted; });
    return found != added.end() && found->first <= code;
}

} // namespace

bool occursIn(std::string_view text)
{
    for (std::size_t position = 0; position < text.size();) {
        if (static_cast<std::uint8_t>(text[position]) < 0x80) {
            ++position;
            continue;
        }
        const utf8::Character character = utf8::decode(text, position);
        if (isNewer(character.code))
            return true;
        position += static_cast<std::size_t>(character.bytes);
    }
    return false;
}

std::string ranges(std::string_view property)
{
    std::string out;
    for (const Range &range : added) {
        if (property.empty() || range.category.substr(0, property.size()) != property)
            continue;
        std::array<char, 48> text{};
        std::snprintf(text.data(), text.size(), "\\x{%X}-\\x{%X}", static_cast<unsigned>(range.first),
                      static_cast<unsigned>(range.last));
        out += text.data();
    }
    return out;
}

} // namespace engine::unicode_newer
