// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/prompt_edit.h"

#include <QAbstractTextDocumentLayout>
#include <QFontMetricsF>
#include <QInputMethodEvent>
#include <QKeyEvent>
#include <QMimeData>
#include <QUrl>

#include <algorithm>
#include <cmath>

namespace ui {

PromptEdit::PromptEdit(QWidget *parent)
    : QPlainTextEdit(parent)
{
    setAccessibleName(tr("Message"));
    setTabChangesFocus(true);
    setFrameShape(QFrame::NoFrame);
    setVerticalScrollBarPolicy(Qt::ScrollBarAsNeeded);
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    document()->setDocumentMargin(0);
    connect(document()->documentLayout(), &QAbstractTextDocumentLayout::documentSizeChanged, this,
            &PromptEdit::fitHeight);
}

QSize PromptEdit::sizeHint() const
{
    // A plain text document counts its size in lines.
    const int lines = std::clamp(static_cast<int>(std::ceil(document()->size().height())), 1, maxLines);
    const double height = lines * QFontMetricsF(font()).lineSpacing();
    return {200, static_cast<int>(std::ceil(height)) + 6};
}

void PromptEdit::fitHeight()
{
    updateGeometry();
}

void PromptEdit::submit()
{
    const QString text = toPlainText();
    if (m_composing || text.trimmed().isEmpty())
        return;
    emit submitted(text);
}

void PromptEdit::keyPressEvent(QKeyEvent *event)
{
    const bool enter = event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter;
    if (enter && !m_composing) {
        const bool control = event->modifiers() & Qt::ControlModifier;
        const bool newline = event->modifiers() & (Qt::ShiftModifier | Qt::AltModifier) || (m_controlEnter && !control);
        if (newline)
            insertPlainText(QStringLiteral("\n"));
        else if (!event->isAutoRepeat())
            submit();
        ensureCursorVisible();
        return;
    }
    if (enter)
        return; // it belongs to the input method; as a character it would cut the composition
    if (event->key() == Qt::Key_Up && document()->isEmpty() && !m_composing) {
        emit previousRequested();
        return;
    }
    QPlainTextEdit::keyPressEvent(event);
}

void PromptEdit::inputMethodEvent(QInputMethodEvent *event)
{
    m_composing = !event->preeditString().isEmpty();
    QPlainTextEdit::inputMethodEvent(event);
}

void PromptEdit::focusInEvent(QFocusEvent *event)
{
    QPlainTextEdit::focusInEvent(event);
    if (parentWidget())
        parentWidget()->update(); // it draws the frame
}

void PromptEdit::focusOutEvent(QFocusEvent *event)
{
    m_composing = false; // input methods commit or drop what was composed when the focus goes
    QPlainTextEdit::focusOutEvent(event);
    if (parentWidget())
        parentWidget()->update();
}

/// Only text is pasted: pictures and rich text have no meaning here.
void PromptEdit::insertFromMimeData(const QMimeData *source)
{
    if (source->hasText())
        insertPlainText(source->text());
}

/// A dropped file is no text: it goes on to the window, which opens it.
bool PromptEdit::canInsertFromMimeData(const QMimeData *source) const
{
    const QList<QUrl> urls = source->urls();
    const bool file = std::any_of(urls.begin(), urls.end(), [](const QUrl &url) { return url.isLocalFile(); });
    return source->hasText() && !file;
}

} // namespace ui
