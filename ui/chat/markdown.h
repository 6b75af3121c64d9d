// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/chat/block_splitter.h"

#include <QString>
#include <QStringView>
#include <QVector>

#include <vector>

namespace ui {

/// A run of characters with one style; runs of one piece may overlap and then add up.
struct TextSpan {
    enum Style : quint8 { Strong = 1, Emphasis = 2, Strike = 4, Code = 8, Link = 16 };
    int start = 0;
    int length = 0;
    quint8 style = 0;
    QString href; ///< with Link: an http, https or mailto address
    bool operator==(const TextSpan &) const = default;
};

/// What a block paints: a piece of text with styles, at an indent. Knows no fonts and no colours.
struct Piece {
    enum class Role : quint8 { Body, Heading1, Heading2, Heading3, Cell, HeadCell, Rule, Code, Thought };
    QString text;
    QString marker;   ///< of a list item: a bullet or "3."
    QString language; ///< with Role::Code
    QVector<TextSpan> spans;
    Role role = Role::Body;
    Qt::Alignment align = Qt::AlignLeft; ///< of a table cell
    int depth = 0;                       ///< of lists around it
    int quote = 0;                       ///< of quotes around it
    int row = 0;
    int column = 0;
    bool operator==(const Piece &) const = default;
};

inline constexpr int maxListDepth = 12;
inline constexpr int maxQuoteDepth = 6;
inline constexpr int maxTableColumns = 64; ///< more are counted in the last cell, not shown

/// The pieces of one block of `source`. `open`: the block still grows, so unfinished emphasis is ended and characters
/// whose meaning is not decided yet are held back. `references` are link definitions of the whole message.
/// Raw HTML is text and images are their alternative text: nothing in the content can load anything.
[[nodiscard]] std::vector<Piece> renderBlock(QStringView source, const SourceRange &range, bool open,
                                             const QString &references = {});

/// Text as it may be shown: control characters and direction marks become visible (marks only with `showMarks`), and
/// runs of combining marks are cut, which would take seconds to shape.
[[nodiscard]] QString displayText(QStringView text, bool showMarks);

/// True for addresses that may be opened after a question: http, https and mailto.
[[nodiscard]] bool isSafeLink(const QString &address);

} // namespace ui
