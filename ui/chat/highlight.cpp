// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/highlight.h"

#include "ui/chat/highlight_languages.h"

#include <algorithm>

namespace ui::highlight {
namespace {

enum State { Plain = 0, InComment = 1, InTriple = 2 };

/// Walks one line; each take...() consumes a token at the position and says whether it did.
class LineLexer {
public:
    LineLexer(const Language &language, QStringView line, QVector<Span> *out)
        : m_language(language)
        , m_line(line)
        , m_out(out)
    {
    }

    int run(int state);

private:
    bool takeRegion(const QString &open, const QString &close, Token token, int inside);
    bool takeLineComment();
    bool takeString();
    bool takeNumber();
    bool takeWord();
    [[nodiscard]] bool startsWith(const QString &mark) const
    {
        return !mark.isEmpty() && m_line.mid(m_at).startsWith(mark);
    }
    void add(qsizetype from, qsizetype to, Token token);

    const Language &m_language;
    QStringView m_line;
    QVector<Span> *m_out;
    qsizetype m_at = 0;
    int m_state = Plain;
};

void LineLexer::add(qsizetype from, qsizetype to, Token token)
{
    if (m_out && to > from)
        m_out->append({static_cast<int>(from), static_cast<int>(to - from), token});
}

bool LineLexer::takeRegion(const QString &open, const QString &close, Token token, int inside)
{
    const bool continued = m_state == inside;
    if (!continued && !startsWith(open))
        return false;
    const qsizetype from = m_at;
    const qsizetype end = m_line.indexOf(close, from + (continued ? 0 : open.size()));
    m_state = end < 0 ? inside : Plain;
    m_at = end < 0 ? m_line.size() : end + close.size();
    add(from, m_at, token);
    return true;
}

bool LineLexer::takeLineComment()
{
    const QString &mark = m_language.lineComment;
    const bool word = mark == u"#" && m_at > 0 && !m_line[m_at - 1].isSpace();
    if (!startsWith(mark) || word)
        return false;
    add(m_at, m_line.size(), Token::Comment);
    m_at = m_line.size();
    return true;
}

bool LineLexer::takeString()
{
    const QChar quote = m_line[m_at];
    if (!m_language.quotes.contains(quote))
        return false;
    qsizetype end = m_at + 1;
    while (end < m_line.size() && m_line[end] != quote)
        end += m_line[end] == u'\\' ? 2 : 1;
    end = std::min(m_line.size(), end + 1);
    add(m_at, end, Token::String);
    m_at = end;
    return true;
}

bool LineLexer::takeNumber()
{
    if (!m_line[m_at].isDigit())
        return false;
    qsizetype end = m_at + 1;
    while (end < m_line.size() && (m_line[end].isLetterOrNumber() || m_line[end] == u'.'))
        ++end;
    add(m_at, end, Token::Number);
    m_at = end;
    return true;
}

bool LineLexer::takeWord()
{
    const auto inWord = [](QChar c) { return c.isLetterOrNumber() || c == u'_'; };
    if (!inWord(m_line[m_at]))
        return false;
    qsizetype end = m_at + 1;
    while (end < m_line.size() && inWord(m_line[end]))
        ++end;
    const QString word = m_line.mid(m_at, end - m_at).toString();
    const bool tag = m_language.markup && m_at > 0
        && (m_line[m_at - 1] == u'<' || (m_at > 1 && m_line[m_at - 1] == u'/' && m_line[m_at - 2] == u'<'));
    if (tag || m_language.keywords.contains(m_language.foldCase ? word.toLower() : word))
        add(m_at, end, Token::Keyword);
    else if (m_language.types.contains(m_language.foldCase ? word.toLower() : word)
             || (m_language.keys && end < m_line.size() && m_line[end] == u':'))
        add(m_at, end, Token::Type);
    m_at = end;
    return true;
}

int LineLexer::run(int state)
{
    m_state = state;
    while (m_at < m_line.size()) {
        if (m_state != InTriple && takeRegion(m_language.blockOpen, m_language.blockClose, Token::Comment, InComment))
            continue;
        if (takeRegion(m_language.triple, m_language.triple, Token::String, InTriple))
            continue;
        if (takeLineComment() || takeString() || takeNumber() || takeWord())
            continue;
        ++m_at;
    }
    return m_state;
}

void lexDiff(QStringView line, QVector<Span> *out)
{
    if (!out || line.isEmpty())
        return;
    const int size = static_cast<int>(line.size());
    if (line.startsWith(u"@@"))
        out->append({0, size, Token::Keyword});
    else if (line[0] == u'+')
        out->append({0, size, Token::Inserted});
    else if (line[0] == u'-')
        out->append({0, size, Token::Removed});
}

} // namespace

int lexLine(const Language &language, QStringView line, int state, QVector<Span> *out)
{
    if (language.diff) {
        lexDiff(line, out);
        return Plain;
    }
    return LineLexer(language, line, out).run(state);
}

} // namespace ui::highlight
