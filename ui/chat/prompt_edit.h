// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QPlainTextEdit>

namespace ui {

/// Where a message is written. Enter sends, Shift+Enter begins a new line, and nothing is sent while an input method
/// composes. Grows with its text up to maxLines.
class PromptEdit final : public QPlainTextEdit {
    Q_OBJECT

public:
    explicit PromptEdit(QWidget *parent = nullptr);

    [[nodiscard]] bool isComposing() const { return m_composing; }
    [[nodiscard]] QSize sizeHint() const override;
    [[nodiscard]] QSize minimumSizeHint() const override { return sizeHint(); }
    /// Enter then begins a line, and Ctrl+Enter sends.
    void setControlEnterSends(bool on) { m_controlEnter = on; }
    /// Sends what is there, unless it is empty or not complete yet.
    void submit();

    static constexpr int maxLines = 8;

Q_SIGNALS:
    void submitted(const QString &text);
    /// Up in an empty field: the last message is wanted back.
    void previousRequested();

protected:
    void keyPressEvent(QKeyEvent *event) override;
    void inputMethodEvent(QInputMethodEvent *event) override;
    void focusInEvent(QFocusEvent *event) override;
    void focusOutEvent(QFocusEvent *event) override;
    void insertFromMimeData(const QMimeData *source) override;
    [[nodiscard]] bool canInsertFromMimeData(const QMimeData *source) const override;

private:
    void fitHeight();

    bool m_composing = false;
    bool m_controlEnter = false;
};

} // namespace ui
