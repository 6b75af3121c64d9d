// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/sse_reader.h"

#include <utility>

namespace cli {

std::vector<std::string> SseReader::append(std::string_view bytes)
{
    m_rest += bytes;
    std::vector<std::string> events;
    std::size_t begin = 0;
    for (std::size_t end = m_rest.find('\n'); end != std::string::npos; end = m_rest.find('\n', begin)) {
        std::string_view line = std::string_view(m_rest).substr(begin, end - begin);
        if (line.ends_with('\r'))
            line.remove_suffix(1);
        takeLine(line, events);
        begin = end + 1;
    }
    m_rest.erase(0, begin);
    return events;
}

void SseReader::takeLine(std::string_view line, std::vector<std::string> &events)
{
    if (line.empty()) {
        if (std::exchange(m_hasData, false))
            events.push_back(std::exchange(m_data, {}));
        return;
    }
    if (!line.starts_with("data:"))
        return;
    line.remove_prefix(line.starts_with("data: ") ? 6 : 5);
    if (m_hasData)
        m_data += '\n';
    m_data += line;
    m_hasData = true;
}

} // namespace cli
