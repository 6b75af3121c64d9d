// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/request.h"

#include <QWidget>

class QLabel;
class QPushButton;

namespace ui {

class Pill;
class PromptEdit;
class Theme;

/// The card at the bottom: the message being written, what it will be sampled with, and the button that sends or stops.
class Composer final : public QWidget {
    Q_OBJECT

public:
    explicit Composer(Theme &theme, QWidget *parent = nullptr);

    [[nodiscard]] PromptEdit *edit() const { return m_edit; }
    void setSampling(const engine::SamplingParams &sampling);
    void setSystemPrompt(const QString &prompt);
    void setRunning(bool running);
    /// Why nothing can be sent now; empty when it can.
    void setBlocked(const QString &why);
    /// A remark at the right of the pills, as "Editing a message, Esc cancels".
    void setHint(const QString &hint);

Q_SIGNALS:
    void sendRequested(const QString &text);
    void stopRequested();
    void systemPromptRequested();
    /// `key` names the parameter, as ParameterSpec spells it.
    void samplingRequested(const QString &key);

protected:
    void paintEvent(QPaintEvent *event) override;
    void resizeEvent(QResizeEvent *event) override;

private:
    void createButtons();
    void updateButton();
    void fitPills();
    [[nodiscard]] bool hasText() const;
    void applyTheme();

    Theme &m_theme;
    PromptEdit *m_edit;
    Pill *m_temperature = nullptr;
    Pill *m_topP = nullptr;
    Pill *m_maxTokens = nullptr;
    Pill *m_system = nullptr;
    QLabel *m_hint = nullptr;
    QPushButton *m_send = nullptr;
    QString m_blocked;
    bool m_running = false;
};

} // namespace ui
