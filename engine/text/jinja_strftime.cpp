// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_builtins.h"

#include <algorithm>
#include <array>
#include <clocale>
#include <cstdio>
#include <ctime>
#include <locale.h>
#include <memory>

namespace engine::jinja {
namespace {

// The directives of POSIX and of glibc that Python passes on; those of no effect on a time without zone are left out.
constexpr std::string_view kDirectives = "aAbBcCdDeFgGhHIjklmMnpPrRStTuUVwWxXyY";
constexpr std::string_view kFlags = "-_0^#";
constexpr std::string_view kDigits = "0123456789";
constexpr std::size_t kMaxWidth = 255; // what the directive's buffer holds

struct LocaleDeleter {
    void operator()(locale_t locale) const { freelocale(locale); }
};

std::tm parseDate(const std::string &date)
{
    std::tm out{};
    int used = 0;
    const int fields = std::sscanf(date.c_str(), "%4d-%2d-%2d%n", &out.tm_year, &out.tm_mon, &out.tm_mday, &used);
    bool valid = fields == 3;
    if (valid && static_cast<std::size_t>(used) < date.size()) {
        int more = 0;
        valid =
            std::sscanf(date.c_str() + used, "%*1[T ]%2d:%2d:%2d%n", &out.tm_hour, &out.tm_min, &out.tm_sec, &more) == 3
            && static_cast<std::size_t>(used + more) == date.size();
    }
    const std::array<int, 12> days = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    valid = valid && out.tm_year > 0 && out.tm_mon >= 1 && out.tm_mon <= 12 && out.tm_mday >= 1
        && out.tm_mday <= days[static_cast<std::size_t>(out.tm_mon - 1)] && out.tm_hour >= 0 && out.tm_hour < 24
        && out.tm_min >= 0 && out.tm_min < 60 && out.tm_sec >= 0 && out.tm_sec < 60;
    if (!valid)
        fail("the date '" + date.substr(0, 40) + "' is not of the form YYYY-MM-DD or YYYY-MM-DDThh:mm:ss");
    out.tm_year -= 1900;
    out.tm_mon -= 1;
    // timegm fills in the day of the week and of the year without a time zone.
    timegm(&out);
    return out;
}

std::tm now()
{
    const std::time_t seconds = std::time(nullptr);
    std::tm out{};
    localtime_r(&seconds, &out);
    return out;
}

/// Behind the flags and the width of a directive: glibc pads what has no width of its own to it.
std::size_t skipModifiers(std::string_view format, std::size_t at)
{
    at = std::min(format.find_first_not_of(kFlags, at), format.size());
    const std::size_t end = std::min(format.find_first_not_of(kDigits, at), format.size());
    if (end - at > 3 || (end > at && std::stoul(std::string(format.substr(at, end - at))) > kMaxWidth))
        fail("strftime_now: the width " + std::string(format.substr(at, std::min<std::size_t>(end - at, 20)))
             + " is beyond the limit of " + std::to_string(kMaxWidth));
    return end;
}

void appendDirective(Text &out, const std::string &directive, const std::tm &time, locale_t locale)
{
    std::array<char, 256> buffer{};
    const std::size_t count = strftime_l(buffer.data(), buffer.size(), directive.c_str(), &time, locale);
    out.append(std::string_view(buffer.data(), count));
}

} // namespace

std::string formatTime(Heap &heap, std::string_view format, const std::string &frozen)
{
    const std::tm time = frozen.empty() ? now() : parseDate(frozen);
    // Templates expect English names whatever language the program speaks.
    const std::unique_ptr<std::remove_pointer_t<locale_t>, LocaleDeleter> locale(newlocale(LC_ALL_MASK, "C", nullptr));
    Text out(heap.budget());
    for (std::size_t at = 0; at < format.size(); ++at) {
        std::size_t end = at + 1;
        if (format[at] == '%')
            end = skipModifiers(format, end);
        if (format[at] != '%' || end >= format.size())
            out.append(format[at]);
        else if (format[end] == '%')
            out.append('%');
        else if (format[end] == 'f')
            out.append("000000");
        else if (kDirectives.find(format[end]) != std::string_view::npos)
            appendDirective(out, std::string(format.substr(at, end + 1 - at)), time, locale.get());
        else if (format[end] != 'z' && format[end] != 'Z')
            out.append(format.substr(at, end + 1 - at));
        if (format[at] == '%' && end < format.size())
            at = end;
    }
    return out.release();
}

} // namespace engine::jinja
