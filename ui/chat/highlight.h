// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QStringView>
#include <QVector>

namespace ui::highlight {

enum class Token : quint8 { Keyword, Type, String, Number, Comment, Inserted, Removed };

struct Span {
    int start = 0;
    int length = 0;
    Token token = Token::Keyword;
    bool operator==(const Span &) const = default;
};

struct Language;

/// The language that a fence's first word names; null when it is not known.
[[nodiscard]] const Language *find(QStringView name);

/// Marks the tokens of one line (null: none wanted) and returns the state at its end. The state is one int, 0 at the
/// first line, so that an appended line costs that line only.
int lexLine(const Language &language, QStringView line, int state, QVector<Span> *out);

} // namespace ui::highlight
