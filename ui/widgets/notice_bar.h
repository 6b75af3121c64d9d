// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/theme.h"

#include <QWidget>

class QLabel;
class QPushButton;

namespace ui {

/// One line above the content for something that needs a look: a text, one action, a way to dismiss it, and
/// optionally a progress. The text can be selected and is announced to assistive programs.
class NoticeBar : public QWidget {
    Q_OBJECT
public:
    enum class Tone { Info, Warning, Error };

    explicit NoticeBar(Theme &theme, QWidget *parent = nullptr);
    /// Shows a notice; an empty `action` has no button.
    void showNotice(Tone tone, const QString &text, const QString &action = {});
    /// Shows a notice whose action is the only way on: it cannot be dismissed.
    void showDecision(const QString &text, const QString &action);
    /// Shows or moves a progress with a Cancel button; `fraction` is 0..1.
    void showProgress(const QString &text, double fraction);
    [[nodiscard]] QString text() const;

signals:
    void actionTriggered();
    void dismissed();

protected:
    void paintEvent(QPaintEvent *event) override;

private:
    Theme &m_theme;
    QLabel *m_text = nullptr;
    QPushButton *m_action = nullptr;
    QPushButton *m_close = nullptr;
    Tone m_tone = Tone::Info;
    double m_fraction = -1;
};

} // namespace ui
