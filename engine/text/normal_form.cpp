// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/normal_form.h"

#include "engine/api/error.h"
#include "engine/text/utf8.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace engine {
namespace {

struct CodeRange {
    char32_t first;
    char32_t last;
};

// Unicode Character Database, what versions 10 to 16 have with a combining class, a decomposition or a part in a
// composition, in order. The tables of the `tokenizers` package are those of version 9: these normalize to themselves
// there, and marks neither pass them nor combine across them.
constexpr std::array<CodeRange, 69> newer{
    {{0x7FD, 0x7FD},     {0x897, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},
     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},
     {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xA82C, 0xA82C},   {0xAB69, 0xAB69},   {0x105C9, 0x105C9},
     {0x105D2, 0x105D2}, {0x105DA, 0x105DA}, {0x105E4, 0x105E4}, {0x10781, 0x10785}, {0x10787, 0x107B0},
     {0x107B2, 0x107BA}, {0x10D24, 0x10D27}, {0x10D69, 0x10D6D}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF},
     {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x11382, 0x11385},
     {0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x11391}, {0x113B8, 0x113B8}, {0x113BB, 0x113BB},
     {0x113C2, 0x113C2}, {0x113C5, 0x113C5}, {0x113C7, 0x113C9}, {0x113CE, 0x113D0}, {0x1145E, 0x1145E},
     {0x11839, 0x1183A}, {0x11930, 0x11930}, {0x11935, 0x11935}, {0x11938, 0x11938}, {0x1193D, 0x1193E},
     {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99},
     {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x1611E, 0x16129},
     {0x1612F, 0x1612F}, {0x16D63, 0x16D63}, {0x16D67, 0x16D6A}, {0x16FF0, 0x16FF1}, {0x1CCD6, 0x1CCF9},
     {0x1E030, 0x1E06D}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
     {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}}};

bool isNewer(char32_t code)
{
    const auto found = std::lower_bound(newer.begin(), newer.end(), code,
                                        [](const CodeRange &range, char32_t wanted) { return range.last < wanted; });
    return found != newer.end() && found->first <= code;
}

utf8proc_option_t decomposition(NormalForm form)
{
    const bool compatible = form == NormalForm::Nfkc || form == NormalForm::Nfkd;
    return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
}

std::vector<utf8proc_int32_t> decomposed(std::string_view run, utf8proc_option_t options)
{
    std::vector<utf8proc_int32_t> codes;
    codes.reserve(run.size());
    std::array<utf8proc_int32_t, 32> parts; // the longest decomposition has 18
    int boundary = 0;
    for (std::size_t position = 0; position < run.size();) {
        const utf8::Character character = utf8::decode(run, position);
        position += static_cast<std::size_t>(character.bytes);
        const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character.code),
                                                               parts.data(), parts.size(), options, &boundary);
        if (count < 0 || static_cast<std::size_t>(count) > parts.size())
            throw Error(ErrorCode::Refused, "normalizer: a character cannot be decomposed");
        codes.insert(codes.end(), parts.begin(), parts.begin() + count);
    }
    return codes;
}

int combiningClass(utf8proc_int32_t code)
{
    return utf8proc_get_property(code)->combining_class;
}

/// The library's own ordering takes quadratic time on a long run of marks.
void orderMarks(std::vector<utf8proc_int32_t> &codes)
{
    const auto starts = [](utf8proc_int32_t code) { return combiningClass(code) == 0; };
    for (auto begin = codes.begin(); begin != codes.end();) {
        begin = std::find_if_not(begin, codes.end(), starts);
        const auto end = std::find_if(begin, codes.end(), starts);
        std::stable_sort(begin, end,
                         [](utf8proc_int32_t a, utf8proc_int32_t b) { return combiningClass(a) < combiningClass(b); });
        begin = end;
    }
}

void appendPart(std::string_view run, NormalForm form, std::string &out)
{
    std::vector<utf8proc_int32_t> codes = decomposed(run, decomposition(form));
    orderMarks(codes);
    if (form == NormalForm::Nfc || form == NormalForm::Nfkc) {
        const utf8proc_ssize_t count =
            utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()),
                                     static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
        if (count < 0)
            throw Error(ErrorCode::Refused, std::string("normalizer: ") + utf8proc_errmsg(count));
        codes.resize(static_cast<std::size_t>(count));
    }
    for (const utf8proc_int32_t code : codes)
        utf8::append(out, static_cast<char32_t>(code));
}

/// Newer characters are copied and part the run.
void appendRun(std::string_view run, NormalForm form, std::string &out)
{
    std::size_t begin = 0;
    for (std::size_t position = 0; position < run.size();) {
        const utf8::Character character = utf8::decode(run, position);
        const std::size_t next = position + static_cast<std::size_t>(character.bytes);
        if (isNewer(character.code)) {
            appendPart(run.substr(begin, position - begin), form, out);
            out.append(run.substr(position, next - position));
            begin = next;
        }
        position = next;
    }
    appendPart(run.substr(begin), form, out);
}

} // namespace

bool appendNormalForm(std::string_view text, NormalForm form, std::string &out)
{
    if (std::all_of(text.begin(), text.end(), utf8::isAscii))
        return false;
    out.reserve(out.size() + text.size());
    std::size_t position = 0;
    while (position < text.size()) {
        // ASCII never composes with what stands before it, so a run is an ASCII character with what is not ASCII
        // behind it; the rest is copied.
        std::size_t begin = position;
        while (begin < text.size() && utf8::isAscii(text[begin]))
            ++begin;
        std::size_t end = begin;
        while (end < text.size() && !utf8::isAscii(text[end]))
            ++end;
        begin -= begin > position ? 1 : 0;
        out.append(text.substr(position, begin - position));
        if (begin < end)
            appendRun(text.substr(begin, end - begin), form, out);
        position = end;
    }
    return true;
}

} // namespace engine
