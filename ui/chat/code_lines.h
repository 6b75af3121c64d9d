// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/chat/block_splitter.h"

#include <QString>
#include <QStringView>

#include <vector>

namespace ui {

namespace highlight {
struct Language;
}

/// The lines of one fenced code block, noted once and never parsed again: a growing block costs its new lines only.
/// Very long lines are shown as several, because laying out a megabyte in one line would stop the window.
class CodeLines {
public:
    /// Takes the block's range in `source`, grown since the last call. `open`: it still grows.
    void extend(QStringView source, const SourceRange &range, bool open);

    [[nodiscard]] int count() const { return m_count; }
    /// What the source holds of line `index`, without its end.
    [[nodiscard]] QStringView line(QStringView source, int index) const;
    /// Whether line `index` is only a part, and goes on in the next.
    [[nodiscard]] bool isBroken(QStringView source, int index) const;
    /// The lexer's state at the start of line `index`.
    [[nodiscard]] int state(int index) const { return m_states[static_cast<std::size_t>(index)]; }
    [[nodiscard]] const QString &languageName() const { return m_languageName; }
    [[nodiscard]] const highlight::Language *language() const { return m_language; }
    /// The code as the source has it, between the fences.
    [[nodiscard]] QString text(QStringView source) const;

    static constexpr int longestLine = 1000; ///< characters

private:
    bool start(QStringView source, const SourceRange &range);
    void readFence(QStringView line);
    void addLine(QStringView source, qsizetype end, qsizetype next);
    [[nodiscard]] qsizetype breakOf(QStringView source, qsizetype lineEnd) const;
    [[nodiscard]] bool isFenceLine(QStringView line) const;
    void dropClosing(QStringView source, qsizetype end);

    std::vector<qsizetype> m_starts; ///< of lines, in the source
    std::vector<int> m_states;
    QString m_languageName;
    const highlight::Language *m_language = nullptr;
    qsizetype m_end = 0;
    int m_count = 0;
    int m_fenceIndent = 0;
    QChar m_fenceChar = u'`';
    bool m_closed = false;
};

} // namespace ui
