// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/detokenizer.h"

#include "engine/text/utf8.h"

#include <utility>

namespace engine {

std::string Detokenizer::append(int id)
{
    m_stream->append(id, m_pending);
    return utf8::takeComplete(m_pending);
}

std::string Detokenizer::flush()
{
    m_stream->finish(m_pending);
    return utf8::repaired(std::exchange(m_pending, {}));
}

} // namespace engine
