// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QSet>
#include <QString>

namespace ui::highlight {

/// What the line lexer needs to know of a language; an empty mark means that it has none.
struct Language {
    QSet<QString> keywords;
    QSet<QString> types;
    QString lineComment;
    QString blockOpen;
    QString blockClose;
    QString quotes;        ///< characters that begin and end a string
    QString triple;        ///< a string over several lines
    bool foldCase = false; ///< keywords in any case
    bool diff = false;     ///< whole lines, by their first character
    bool markup = false;   ///< names after '<' are keywords
    bool keys = false;     ///< a word before ':' is a type
};

} // namespace ui::highlight
