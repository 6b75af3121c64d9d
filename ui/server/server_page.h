// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/theme.h"

#include <QWidget>

class QBoxLayout;
class QCheckBox;
class QGridLayout;
class QLabel;
class QLineEdit;
class QPushButton;
class QSpinBox;

namespace ui {

class Card;
class EngineClient;
class ServerLink;
class Settings;
class StatsHistory;

/// Starts and stops the OpenAI-compatible server of the window, and shows what clients need to reach it and what they
/// ask for.
class ServerPage : public QWidget {
    Q_OBJECT
public:
    ServerPage(Theme &theme, EngineClient &client, StatsHistory &history, Settings &settings, ServerLink &server,
               QWidget *parent = nullptr);

    [[nodiscard]] QSpinBox *port() const { return m_port; }
    [[nodiscard]] QCheckBox *withKey() const { return m_withKey; }
    [[nodiscard]] QPushButton *toggle() const { return m_toggle; }
    [[nodiscard]] QLabel *status() const { return m_status; }
    [[nodiscard]] QLineEdit *address() const { return m_address; }
    [[nodiscard]] QLineEdit *key() const { return m_key; }

protected:
    void showEvent(QShowEvent *event) override;
    void hideEvent(QHideEvent *event) override;
    void resizeEvent(QResizeEvent *event) override;
    void focusInEvent(QFocusEvent *event) override;

private:
    void createLayout(EngineClient &client, StatsHistory &history);
    [[nodiscard]] QWidget *createCard();
    QLineEdit *addCopied(QGridLayout *grid, int row, const QString &name);
    void refresh();
    void startOrStop();

    Theme &m_theme;
    EngineClient &m_client;
    Settings &m_settings;
    ServerLink &m_server;
    QBoxLayout *m_row = nullptr;
    QLabel *m_status = nullptr;
    QPushButton *m_toggle = nullptr;
    QSpinBox *m_port = nullptr;
    QCheckBox *m_withKey = nullptr;
    QLineEdit *m_address = nullptr;
    QLineEdit *m_key = nullptr;
    QLineEdit *m_model = nullptr;
    Card *m_card = nullptr;
    bool m_watching = false;
};

} // namespace ui
