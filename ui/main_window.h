// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/theme.h"

#include <QHash>
#include <QList>
#include <QMainWindow>

#include <functional>
#include <optional>

class QDockWidget;
class QMenu;
class QSplitter;
class QStackedWidget;

namespace ui {

class ChatPage;
class DevicesPage;
class EngineClient;
class EnlargedView;
class Inspector;
class LiveCard;
class ModelsPage;
class NoticeBar;
class Rail;
class ServerControl;
class ServerLink;
class ServerPage;
class Settings;
class StatsHistory;
class StatusLine;
class TunePage;

/// The window: rail, one content area, one status line; pages, inspector, menus, and what happens to models.
///
/// The only place that knows the pages; they meet nowhere else.
class MainWindow : public QMainWindow {
    Q_OBJECT
public:
    enum Place { ChatPlace, ModelsPlace, TunePlace, DevicesPlace, ServerPlace };

    /// Without a `server` there is no place for one. \pre `server` outlives this
    MainWindow(Theme &theme, EngineClient &client, Settings &settings, ServerControl *server = nullptr,
               QWidget *parent = nullptr);
    ~MainWindow() override;

    void showPlace(Place place);
    [[nodiscard]] Place place() const;
    /// Loads a model; says so, and shows progress, result or the engine's reason.
    void openModel(const QString &path);
    /// Asks in a chat of its own, as the tour does.
    void ask(const QString &question);
    /// Says what the last answer of the shown chat took its time for.
    void explainLastAnswer();
    /// Shows one card over the whole content area; null goes back to the place before.
    void enlarge(LiveCard *card);
    /// The names of the live cards, in the order of the column, and enlarge() by name; an empty name goes back.
    [[nodiscard]] QStringList cardKeys() const;
    void enlargeCard(const QString &key);
    void tearOff(LiveCard *card);
    /// Starts the workload of the tune page, or stops it.
    void runWorkload();
    /// 0..1 of the running workload; nothing when none runs.
    [[nodiscard]] std::optional<double> workloadProgress() const;
    /// Why the last one could not be measured; empty when it was.
    [[nodiscard]] QString workloadFault() const;
    void setInspectorShown(bool shown);
    [[nodiscard]] bool isInspectorShown() const;
    void showShortcuts();

    [[nodiscard]] Inspector *inspector() const { return m_inspector; }
    [[nodiscard]] ModelsPage *modelsPage() const { return m_models; }
    [[nodiscard]] TunePage *tunePage() const { return m_tune; }
    [[nodiscard]] DevicesPage *devicesPage() const { return m_devices; }
    [[nodiscard]] ChatPage *chatPage() const { return m_chat; }
    [[nodiscard]] ServerPage *serverPage() const { return m_server; } ///< null without a server
    [[nodiscard]] ServerLink *serverLink() const { return m_serverLink; }
    [[nodiscard]] StatusLine *statusLine() const { return m_status; }
    [[nodiscard]] NoticeBar *notice() const { return m_notice; }
    [[nodiscard]] NoticeBar *progress() const { return m_progress; }
    [[nodiscard]] QMenu *menu() const { return m_menu; }

protected:
    void closeEvent(QCloseEvent *event) override;
    void resizeEvent(QResizeEvent *event) override;
    void dragEnterEvent(QDragEnterEvent *event) override;
    void dropEvent(QDropEvent *event) override;

private:
    void createPages();
    void createLayout();
    void createActions();
    void createModelMenu();
    void useSuggestedSampling();
    void createViewMenu();
    void fillRecentMenu();
    void connectEngine();
    QAction *addShortcut(QMenu *menu, const QString &text, const QKeySequence &keys, const std::function<void()> &run);
    void backFromEnlarged();
    void dockClosed(QDockWidget *dock);
    void reload();
    void showDeviceLost(const QString &before); ///< a notice, after what else is to be said
    void about();
    void makeRoom();
    void saveState();
    void restoreState();

    Theme &m_theme;
    EngineClient &m_client;
    Settings &m_settings;
    StatsHistory *m_history = nullptr;
    Rail *m_rail = nullptr;
    QStackedWidget *m_stack = nullptr;
    QSplitter *m_chatSplitter = nullptr;
    ChatPage *m_chat = nullptr;
    Inspector *m_inspector = nullptr;
    ModelsPage *m_models = nullptr;
    TunePage *m_tune = nullptr;
    DevicesPage *m_devices = nullptr;
    ServerLink *m_serverLink = nullptr;
    ServerPage *m_server = nullptr;
    EnlargedView *m_enlarged = nullptr;
    StatusLine *m_status = nullptr;
    NoticeBar *m_notice = nullptr;
    NoticeBar *m_progress = nullptr;
    QMenu *m_menu = nullptr;
    QMenu *m_recent = nullptr;
    QAction *m_inspectorAction = nullptr;
    bool m_narrow = false;
    bool m_madeRoom = false; ///< the inspector is hidden because the window is narrow
    QHash<QDockWidget *, LiveCard *> m_docks;
    QList<QPair<QString, QString>> m_shortcuts; ///< keys, what they do
    QString m_deviceLost;                       ///< what happened to the device, while requests wait for another one
    QString m_changedFile;                      ///< of the notice about a changed model file
};

} // namespace ui
