// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/main_window.h"

#include "ui/engine_client.h"
#include "ui/format.h"
#include "ui/inspect/inspector.h"
#include "ui/models/models_page.h"
#include "ui/parameters.h"
#include "ui/settings.h"
#include "ui/widgets/rail.h"

#include <QActionGroup>
#include <QApplication>
#include <QBoxLayout>
#include <QDialog>
#include <QFileInfo>
#include <QGridLayout>
#include <QLabel>
#include <QMenu>
#include <QMessageBox>
#include <QPushButton>
#include <QShortcut>

#include <utility>

namespace ui {

// Every action is an action of the window, so that its keys work while the menu is closed; keys are written out, as
// standard sequences are empty without a platform theme.
QAction *MainWindow::addShortcut(QMenu *menu, const QString &text, const QKeySequence &keys,
                                 const std::function<void()> &run)
{
    QAction *action = menu->addAction(text);
    action->setShortcut(keys);
    addAction(action);
    connect(action, &QAction::triggered, this, run);
    m_shortcuts.append({keys.toString(QKeySequence::NativeText), QString(text).remove(QStringLiteral("…"))});
    return action;
}

void MainWindow::createActions()
{
    m_menu = new QMenu(this);
    createModelMenu();
    m_menu->addSeparator();
    createViewMenu();
    m_menu->addSeparator();
    addShortcut(m_menu, tr("Parameters"), Qt::CTRL | Qt::Key_Comma, [this] { showPlace(TunePlace); });
    addShortcut(m_menu, tr("Keyboard shortcuts"), Qt::Key_F1, [this] { showShortcuts(); });
    m_menu->addAction(tr("About Lathe"), this, &MainWindow::about);
    m_menu->addSeparator();
    addShortcut(m_menu, tr("Quit"), Qt::CTRL | Qt::Key_Q, [this] { close(); });

    QStringList names{tr("Chat"), tr("Models"), tr("Tune"), tr("Devices")};
    if (m_server)
        names << tr("Server");
    for (int i = 0; i < names.size(); ++i) {
        const QKeySequence keys(Qt::CTRL | Qt::Key(Qt::Key_1 + i));
        auto *shortcut = new QShortcut(keys, this);
        connect(shortcut, &QShortcut::activated, this, [this, i] { showPlace(Place(i)); });
        m_shortcuts.append({keys.toString(QKeySequence::NativeText), names[i]});
    }
    const auto openMenu = [this] {
        const QWidget *button = m_rail->menuButton();
        m_menu->popup(button->mapToGlobal(QPoint(button->width() + 6, button->height() - m_menu->sizeHint().height())));
    };
    connect(m_rail, &Rail::menuRequested, this, openMenu);
    auto *f10 = new QShortcut(Qt::Key_F10, this);
    connect(f10, &QShortcut::activated, this, openMenu);
    m_shortcuts.append({QStringLiteral("F10"), tr("Menu")});
}

void MainWindow::createModelMenu()
{
    addShortcut(m_menu, tr("Open model…"), Qt::CTRL | Qt::Key_O, [this] { m_models->browse(); });
    m_menu->addAction(tr("Open model folder…"), m_models, &ModelsPage::browseFolder);
    m_recent = m_menu->addMenu(tr("Open recent"));
    connect(m_recent, &QMenu::aboutToShow, this, &MainWindow::fillRecentMenu); // files may have gone since
    connect(&m_settings, &Settings::recentModelsChanged, this, &MainWindow::fillRecentMenu);
    fillRecentMenu();
    QAction *suggested = m_menu->addAction(tr("Use the model's sampling"), this, &MainWindow::useSuggestedSampling);
    suggested->setToolTip(tr("The values that the model's makers suggest, where its files state them"));
    suggested->setEnabled(false);
    connect(&m_client, &EngineClient::modelLoaded, suggested, [suggested](const engine::ModelInfo &model) {
        suggested->setEnabled(!(model.sampling == engine::SuggestedSampling{}));
    });
    connect(&m_client, &EngineClient::modelUnloaded, suggested, [suggested] { suggested->setEnabled(false); });
    QAction *unload = m_menu->addAction(tr("Unload model"), &m_client, &EngineClient::unloadModel);
    unload->setEnabled(false);
    connect(&m_client, &EngineClient::modelLoaded, unload, [unload] { unload->setEnabled(true); });
    connect(&m_client, &EngineClient::modelUnloaded, unload, [unload] { unload->setEnabled(false); });
}

void MainWindow::useSuggestedSampling()
{
    if (!m_client.model())
        return;
    m_client.setSampling(suggestedSampling(m_client.sampling(), m_client.model()->sampling));
    m_settings.setSampling(m_client.sampling());
}

void MainWindow::fillRecentMenu()
{
    m_recent->clear();
    for (const QString &path : m_settings.recentModels()) {
        // A single & would become an underline.
        const QString name = format::modelName(path).replace(u'&', QStringLiteral("&&"));
        QAction *action = m_recent->addAction(name, this, [this, path] { openModel(path); });
        action->setToolTip(path);
        action->setEnabled(QFileInfo::exists(path));
    }
    m_recent->menuAction()->setEnabled(!m_recent->isEmpty());
}

void MainWindow::createViewMenu()
{
    m_inspectorAction = addShortcut(m_menu, tr("Inspector"), Qt::CTRL | Qt::Key_B, [] { });
    m_inspectorAction->setCheckable(true);
    m_inspectorAction->setChecked(true);
    connect(m_inspectorAction, &QAction::toggled, m_inspector, &QWidget::setVisible);
    connect(m_inspectorAction, &QAction::triggered, this, [this](bool on) {
        if (!on && std::exchange(m_madeRoom, false))
            m_inspectorAction->setChecked(true); // asked for where it had made room
    });
    QMenu *cards = m_menu->addMenu(tr("Cards"));
    cards->addActions(m_inspector->cardActions());
    QMenu *themes = m_menu->addMenu(tr("Theme"));
    auto *group = new QActionGroup(this);
    const std::pair<QString, ThemeMode> modes[] = {
        {tr("Follow the desktop"), ThemeMode::System}, {tr("Light"), ThemeMode::Light}, {tr("Dark"), ThemeMode::Dark}};
    for (const auto &[name, mode] : modes) {
        QAction *action = themes->addAction(name);
        action->setCheckable(true);
        action->setChecked(m_settings.themeMode() == mode);
        group->addAction(action);
        connect(action, &QAction::triggered, this, [this, mode = mode] {
            m_settings.setThemeMode(mode);
            m_theme.setMode(mode);
        });
    }
}

void MainWindow::showShortcuts()
{
    QDialog dialog(this);
    dialog.setWindowTitle(tr("Keyboard shortcuts"));
    auto *grid = new QGridLayout;
    grid->setHorizontalSpacing(24);
    grid->setVerticalSpacing(6);
    QList<QPair<QString, QString>> rows = m_shortcuts;
    rows.append({tr("Ctrl+N"), tr("New chat")});
    rows.append({tr("Ctrl+K"), tr("Search chats")});
    rows.append({tr("Enter"), tr("Send; Shift+Enter starts a line")});
    rows.append({tr("Esc"), tr("Stop the answer, or leave an enlarged card")});
    rows.append({tr("Ctrl+R"), tr("Answer again")});
    rows.append({tr("Ctrl+Shift+C"), tr("Copy the last answer")});
    rows.append({tr("Alt+Left, Alt+Right"), tr("The variant before, the variant after")});
    rows.append({tr("Alt+Up, Alt+Down"), tr("Move the focused card")});
    rows.append({tr("F5"), tr("Run the workload of the Tune page, or stop it")});
    rows.append({tr("Arrows, Page Up, Page Down"), tr("Turn the focused knob; Delete resets it")});
    for (int i = 0; i < rows.size(); ++i) {
        auto *keys = new QLabel(rows[i].first);
        keys->setFont(m_theme.mono(12.5));
        grid->addWidget(keys, i, 0);
        grid->addWidget(new QLabel(rows[i].second), i, 1);
    }
    auto *close = new QPushButton(tr("Close"));
    connect(close, &QPushButton::clicked, &dialog, &QDialog::accept);
    auto *column = new QVBoxLayout(&dialog);
    column->setContentsMargins(24, 20, 24, 16);
    column->setSpacing(16);
    column->addLayout(grid);
    column->addWidget(close, 0, Qt::AlignRight);
    dialog.exec();
}

void MainWindow::about()
{
    QMessageBox::about(this, tr("About Lathe"),
                       tr("<b>Lathe %1</b><p>A workbench for running language models on this machine.</p>"
                          "<p>Free software under the GNU General Public License, version 3 or later.</p>")
                           .arg(QCoreApplication::applicationVersion().toHtmlEscaped()));
}

} // namespace ui
