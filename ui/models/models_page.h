// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/theme.h"

#include <QWidget>

class QLabel;
class QListView;
class QPushButton;

namespace ui {

class EngineClient;
class ModelCard;
class ModelList;
class Settings;

/// Recent and installed models; opening, progress and what the loaded one is.
class ModelsPage : public QWidget {
    Q_OBJECT
public:
    ModelsPage(Theme &theme, EngineClient &client, Settings &settings, QWidget *parent = nullptr);

    /// Shows the file dialog and loads what was chosen.
    void browse();
    /// The same for a folder.
    void browseFolder();
    /// Reads the folder again, off this thread.
    void refresh();
    [[nodiscard]] QListView *list() const { return m_view; }

signals:
    void openRequested(const QString &path);

protected:
    void showEvent(QShowEvent *event) override;

private:
    void createLayout();
    void openCurrent();
    [[nodiscard]] QString startFolder() const; ///< of dialogs
    void updateButtons();
    void showFailure(const QString &path, const QString &message, bool cancelled);

    Theme &m_theme;
    EngineClient &m_client;
    Settings &m_settings;
    ModelList *m_model = nullptr;
    QListView *m_view = nullptr;
    QLabel *m_fault = nullptr;
    QPushButton *m_open = nullptr;
    QPushButton *m_browse = nullptr;
    QPushButton *m_browseFolder = nullptr;
    QPushButton *m_forget = nullptr;
    ModelCard *m_card = nullptr;
};

} // namespace ui
