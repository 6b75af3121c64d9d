// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/word_level.h"

#include <utility>

namespace engine {

WordLevel::WordLevel(const TokenTable &tokens, WordLevelOptions options)
    : m_tokens(tokens)
    , m_options(std::move(options))
    , m_unknown(find(m_options.unknown))
{
}

int WordLevel::find(std::string_view word) const
{
    const int id = m_tokens.find(word);
    const auto at = static_cast<std::size_t>(id);
    return id >= 0 && at < m_options.outsideModel.size() && m_options.outsideModel[at] ? -1 : id;
}

void WordLevel::encodeWord(std::string_view word, std::vector<int> &ids) const
{
    const int known = find(word);
    if (known < 0 && m_unknown < 0)
        refuseUnknown(word, m_options.unknown);
    ids.push_back(known >= 0 ? known : m_unknown);
}

} // namespace engine
