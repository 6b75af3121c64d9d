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

bool isAscii(char c)
{
    return static_cast<std::uint8_t>(c) < 0x80;
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

void appendRun(std::string_view run, NormalForm form, std::string &out)
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

} // namespace

bool appendNormalForm(std::string_view text, NormalForm form, std::string &out)
{
    if (std::all_of(text.begin(), text.end(), isAscii))
        return false;
    out.reserve(out.size() + text.size());
    std::size_t position = 0;
    while (position < text.size()) {
        // ASCII never composes with what stands before it, so a run is an ASCII character with what is not ASCII
        // behind it; the rest is copied.
        std::size_t begin = position;
        while (begin < text.size() && isAscii(text[begin]))
            ++begin;
        std::size_t end = begin;
        while (end < text.size() && !isAscii(text[end]))
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
