// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/tokenizer.h"

namespace engine {
namespace {

class JoinedBytes final : public TokenStream {
public:
    JoinedBytes(const Tokenizer &tokenizer, bool skipSpecial)
        : m_tokenizer(tokenizer)
        , m_skipSpecial(skipSpecial)
    {
    }
    void append(int id, std::string &out) override { out += m_tokenizer.bytes(id, m_skipSpecial); }
    void finish(std::string &) override { }

private:
    const Tokenizer &m_tokenizer;
    bool m_skipSpecial;
};

} // namespace

std::unique_ptr<TokenStream> Tokenizer::stream(bool skipSpecial) const
{
    return std::make_unique<JoinedBytes>(*this, skipSpecial);
}

} // namespace engine
