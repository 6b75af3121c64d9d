// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/tokenizer_normalizer.h"

#include "engine/api/error.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace engine {
namespace {

bool isAscii(char c)
{
    return static_cast<std::uint8_t>(c) < 0x80;
}

void appendNfc(std::string_view run, std::string &out)
{
    utf8proc_uint8_t *composed = nullptr;
    const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    const utf8proc_ssize_t bytes = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t *>(run.data()),
                                                static_cast<utf8proc_ssize_t>(run.size()), &composed, options);
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(composed, &std::free);
    if (bytes < 0)
        throw Error(ErrorCode::OutOfMemory, std::string("normalizer NFC: ") + utf8proc_errmsg(bytes));
    out.append(reinterpret_cast<const char *>(composed), static_cast<std::size_t>(bytes));
}

} // namespace

std::string_view normalized(std::string_view text, Normalization form, std::string &storage)
{
    if (form == Normalization::None || std::all_of(text.begin(), text.end(), isAscii))
        return text;
    storage.clear();
    storage.reserve(text.size());
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
        storage.append(text.substr(position, begin - position));
        if (begin < end)
            appendNfc(text.substr(begin, end - begin), storage);
        position = end;
    }
    return storage;
}

} // namespace engine
