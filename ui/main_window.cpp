// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/main_window.h"

#include "engine/library/model_files.h"
#include "ui/chat/chat_page.h"
#include "ui/devices/devices_page.h"
#include "ui/engine_client.h"
#include "ui/format.h"
#include "ui/inspect/enlarged_view.h"
#include "ui/inspect/inspector.h"
#include "ui/inspect/live_card.h"
#include "ui/models/models_page.h"
#include "ui/server/server_page.h"
#include "ui/server_link.h"
#include "ui/settings.h"
#include "ui/stats_history.h"
#include "ui/status_line.h"
#include "ui/suspend_watch.h"
#include "ui/tune/tune_page.h"
#include "ui/tune/tuner.h"
#include "ui/widgets/notice_bar.h"
#include "ui/widgets/rail.h"

#include <QApplication>
#include <QBoxLayout>
#include <QCloseEvent>
#include <QDockWidget>
#include <QFileInfo>
#include <QMenu>
#include <QMimeData>
#include <QSplitter>
#include <QStackedWidget>
#include <QWindow>

// Resources of a static library are only linked in when they are named, outside of any namespace.
static void initResources()
{
    Q_INIT_RESOURCE(resources);
}

namespace ui {

namespace {

constexpr int narrowWidth = 1180; // rail, chats, 500 px of chat and the inspector

} // namespace

MainWindow::MainWindow(Theme &theme, EngineClient &client, Settings &settings, ServerControl *server, QWidget *parent)
    : QMainWindow(parent)
    , m_theme(theme)
    , m_client(client)
    , m_settings(settings)
    , m_history(new StatsHistory(client, this))
    , m_serverLink(server ? new ServerLink(*server, client, this) : nullptr)
{
    initResources();
    setWindowTitle(QStringLiteral("Lathe"));
    setWindowIcon(QIcon(QStringLiteral(":/icons/lathe.svg")));
    setAcceptDrops(true);
    setMinimumSize(900, 600);
    resize(1600, 1000);
    createPages();
    createLayout();
    createActions();
    connectEngine();
    restoreState();
    showPlace(ChatPlace);
}

MainWindow::~MainWindow() = default;

void MainWindow::createPages()
{
    m_chat = new ChatPage(m_theme, m_client, m_settings);
    m_inspector = new Inspector(m_theme, m_client, *m_history, m_settings);
    m_models = new ModelsPage(m_theme, m_client, m_settings);
    m_tune = new TunePage(m_theme, m_client, *m_history, m_settings);
    m_devices = new DevicesPage(m_theme, m_client);
    if (m_serverLink)
        m_server = new ServerPage(m_theme, m_client, *m_history, m_settings, *m_serverLink);
    m_enlarged = new EnlargedView(m_theme);
    m_chatSplitter = new QSplitter(Qt::Horizontal);
    m_chatSplitter->addWidget(m_chat);
    m_chatSplitter->addWidget(m_inspector);
    m_chatSplitter->setStretchFactor(0, 1);
    m_chatSplitter->setStretchFactor(1, 0);
    m_chatSplitter->setCollapsible(0, false);
    m_chatSplitter->setHandleWidth(1);
    connect(m_inspector, &Inspector::enlargeRequested, this, &MainWindow::enlarge);
    connect(m_inspector, &Inspector::tearOffRequested, this, &MainWindow::tearOff);
    connect(m_enlarged, &EnlargedView::closed, this, &MainWindow::backFromEnlarged);
    connect(m_models, &ModelsPage::openRequested, this, &MainWindow::openModel);
    connect(m_chat, &ChatPage::samplingRequested, this, [this](const QString &key) {
        showPlace(TunePlace);
        m_tune->showKnob(key.toStdString());
    });
    auto *sleep = new SuspendWatch(this);
    connect(sleep, &SuspendWatch::aboutToSleep, m_chat, &ChatPage::flush);
    connect(qApp, &QGuiApplication::commitDataRequest, this, [this] {
        m_chat->flush();
        saveState();
    });
}

void MainWindow::createLayout()
{
    m_rail = new Rail(m_theme);
    m_rail->addPlace(RailIcon::Chat, tr("Chat"));
    m_rail->addPlace(RailIcon::Models, tr("Models"));
    m_rail->addPlace(RailIcon::Tune, tr("Tune"));
    m_rail->addPlace(RailIcon::Devices, tr("Devices"));
    if (m_server)
        m_rail->addPlace(RailIcon::Server, tr("Server"));
    connect(m_rail, &Rail::chosen, this, [this](int index) { showPlace(Place(index)); });
    m_stack = new QStackedWidget;
    for (QWidget *page :
         {static_cast<QWidget *>(m_chatSplitter), static_cast<QWidget *>(m_models), static_cast<QWidget *>(m_tune),
          static_cast<QWidget *>(m_devices), static_cast<QWidget *>(m_server), static_cast<QWidget *>(m_enlarged)})
        if (page)
            m_stack->addWidget(page);
    m_progress = new NoticeBar(m_theme);
    m_notice = new NoticeBar(m_theme);

    auto *content = new QVBoxLayout;
    content->setSpacing(0);
    content->addWidget(m_progress);
    content->addWidget(m_notice);
    content->addWidget(m_stack, 1);
    auto *center = new QWidget;
    auto *row = new QHBoxLayout(center);
    row->setContentsMargins(0, 0, 0, 0);
    row->setSpacing(0);
    row->addWidget(m_rail);
    row->addLayout(content, 1);
    setCentralWidget(center);
    m_status = new StatusLine(m_theme, m_client, *m_history);
    if (m_serverLink)
        m_status->setServer(*m_serverLink);
    setStatusBar(m_status);
    setDockOptions(QMainWindow::AllowTabbedDocks | QMainWindow::AnimatedDocks);
}

void MainWindow::connectEngine()
{
    connect(m_progress, &NoticeBar::actionTriggered, &m_client, &EngineClient::cancelLoad);
    connect(m_notice, &NoticeBar::actionTriggered, this, &MainWindow::reload);
    connect(m_notice, &NoticeBar::dismissed, this, [this] { m_changedFile.clear(); });
    connect(&m_client, &EngineClient::loadStarted, this, [this](const QString &path) {
        m_notice->hide();
        m_progress->showProgress(tr("Loading %1").arg(format::modelName(path)), 0);
    });
    connect(&m_client, &EngineClient::loadProgress, this, [this](double fraction, const QString &stage) {
        const QString name = format::modelName(m_client.loadingPath());
        m_progress->showProgress(tr("Loading %1: %2, %3 %").arg(name, stage).arg(qRound(fraction * 100)), fraction);
    });
    connect(&m_client, &EngineClient::modelLoaded, this, [this](const engine::ModelInfo &info) {
        const QString path = QString::fromStdString(info.path);
        m_progress->hide();
        m_deviceLost.clear();
        m_settings.addRecentModel(path);
        setWindowTitle(tr("%1 – Lathe").arg(format::modelName(path)));
        if (!info.warnings.empty())
            m_notice->showNotice(NoticeBar::Tone::Warning, QString::fromStdString(info.warnings.front()));
    });
    connect(
        &m_client, &EngineClient::loadFailed, this, [this](const QString &, const QString &message, bool cancelled) {
            m_progress->hide();
            if (!m_deviceLost.isEmpty())
                return showDeviceLost(cancelled ? QString() : format::sentence(message));
            const QString kept = m_client.model() ? tr("The model before stays loaded.") : tr("No model is loaded.");
            if (cancelled)
                m_notice->showNotice(NoticeBar::Tone::Info, tr("Loading was cancelled. %1").arg(kept));
            else
                m_notice->showNotice(NoticeBar::Tone::Error,
                                     QStringLiteral("%1\n%2").arg(format::sentence(message), kept));
        });
    connect(&m_client, &EngineClient::modelUnloaded, this, [this] {
        m_deviceLost.clear();
        setWindowTitle(QStringLiteral("Lathe"));
    });
    connect(&m_client, &EngineClient::modelFileChanged, this, [this](const QString &path, const QString &what) {
        m_changedFile = path;
        m_notice->showNotice(
            NoticeBar::Tone::Warning,
            tr("%1 Answers go on from memory.")
                .arg(format::sentence(what.contains(path) ? what : QStringLiteral("%1: %2").arg(path, what))),
            tr("Load again"));
    });
    connect(&m_client, &EngineClient::samplingRefused, this, [this](quint64 id, const QString &message) {
        if (!m_changedFile.isEmpty() || !m_deviceLost.isEmpty())
            return; // the notice that offers a way on says more
        m_notice->showNotice(
            NoticeBar::Tone::Warning,
            tr("The sampling of request %1 stays as it was: %2").arg(id).arg(format::sentence(message)));
    });
    connect(&m_client, &EngineClient::noticed, this, [this](const engine::EngineNotice &notice) {
        using Kind = engine::EngineNotice::Kind;
        const bool over =
            notice.kind == Kind::StepResumed || notice.kind == Kind::Cooled || notice.kind == Kind::DeviceReplaced;
        if (notice.kind == Kind::DeviceLost) {
            m_deviceLost = format::sentence(QString::fromStdString(notice.message));
            m_changedFile.clear();
            showDeviceLost({});
        } else if (m_deviceLost.isEmpty() && m_changedFile.isEmpty()) {
            m_notice->showNotice(over ? NoticeBar::Tone::Info : NoticeBar::Tone::Warning,
                                 format::sentence(QString::fromStdString(notice.message)));
        }
    });
}

void MainWindow::showDeviceLost(const QString &before)
{
    m_notice->showDecision(before.isEmpty() ? m_deviceLost : QStringLiteral("%1\n%2").arg(before, m_deviceLost),
                           tr("Go on on the CPU"));
}

void MainWindow::reload()
{
    if (!std::exchange(m_deviceLost, {}).isEmpty())
        m_client.continueOn(QStringLiteral("cpu"));
    else if (!m_changedFile.isEmpty())
        openModel(std::exchange(m_changedFile, {}));
}

void MainWindow::showPlace(Place place)
{
    if (m_enlarged->card() && m_stack->currentWidget() == m_enlarged)
        enlarge(nullptr);
    m_stack->setCurrentIndex(int(place));
    m_rail->setCurrent(int(place));
    QWidget *const pages[] = {m_chat, m_models, m_tune, m_devices, m_server};
    pages[place]->setFocus();
}

MainWindow::Place MainWindow::place() const
{
    return Place(m_rail->current());
}

void MainWindow::openModel(const QString &path)
{
    const std::string whole = engine::modelPathOf(QFileInfo(path).absoluteFilePath().toStdString());
    m_client.loadModel(QString::fromStdString(whole));
}

void MainWindow::ask(const QString &question)
{
    m_chat->newChat();
    m_chat->send(question);
}

void MainWindow::runWorkload()
{
    m_tune->runWorkload();
}

std::optional<double> MainWindow::workloadProgress() const
{
    const Tuner &tuner = *m_tune->tuner();
    return tuner.isRunning() ? std::optional(tuner.fraction()) : std::nullopt;
}

QString MainWindow::workloadFault() const
{
    return m_tune->tuner()->fault();
}

void MainWindow::explainLastAnswer()
{
    m_chat->explainLast();
}

void MainWindow::enlarge(LiveCard *card)
{
    if (LiveCard *before = m_enlarged->card()) {
        m_enlarged->setCard(nullptr);
        m_inspector->giveBack(before);
    }
    if (!card) {
        m_stack->setCurrentIndex(m_rail->current());
        return;
    }
    for (auto it = m_docks.cbegin(); it != m_docks.cend(); ++it) {
        if (it.value() == card) // a torn-off card is large where it is
            return;
    }
    m_inspector->lend(card);
    m_enlarged->setCard(card);
    m_stack->setCurrentWidget(m_enlarged);
}

QStringList MainWindow::cardKeys() const
{
    QStringList keys;
    for (const LiveCard *card : m_inspector->cards())
        keys << card->key();
    return keys;
}

void MainWindow::enlargeCard(const QString &key)
{
    enlarge(key.isEmpty() ? nullptr : m_inspector->card(key));
}

void MainWindow::backFromEnlarged()
{
    LiveCard *card = m_enlarged->card();
    enlarge(nullptr);
    if (card)
        card->setFocus();
}

void MainWindow::tearOff(LiveCard *card)
{
    if (m_docks.values().contains(card))
        return;
    m_inspector->lend(card);
    card->setMinimumHeight(160);
    card->setMaximumHeight(QWIDGETSIZE_MAX);
    auto *dock = new QDockWidget(card->title(), this);
    dock->setObjectName(QStringLiteral("dock-") + card->key());
    dock->setWidget(card);
    dock->setAttribute(Qt::WA_DeleteOnClose, false);
    m_docks.insert(dock, card);
    addDockWidget(Qt::RightDockWidgetArea, dock);
    dock->setFloating(true);
    dock->resize(card->sizeHint() + QSize(8, 32));
    dock->move(mapToGlobal(QPoint(width() / 3, height() / 4)));
    card->show();
    dock->show();
    connect(dock, &QDockWidget::visibilityChanged, this, [this, dock](bool) {
        if (dock->isHidden())
            QMetaObject::invokeMethod(this, [this, dock] { dockClosed(dock); }, Qt::QueuedConnection);
    });
}

void MainWindow::dockClosed(QDockWidget *dock)
{
    LiveCard *card = m_docks.take(dock);
    if (!card)
        return;
    m_inspector->giveBack(card); // takes the card over before its dock goes
    removeDockWidget(dock);
    dock->deleteLater();
}

void MainWindow::setInspectorShown(bool shown)
{
    m_inspectorAction->setChecked(shown);
}

bool MainWindow::isInspectorShown() const
{
    return m_inspectorAction->isChecked();
}

void MainWindow::closeEvent(QCloseEvent *event)
{
    m_chat->flush();
    saveState();
    event->accept();
}

void MainWindow::saveState()
{
    m_settings.setValue(QStringLiteral("window/geometry"), saveGeometry());
    m_settings.setValue(QStringLiteral("window/chatSplitter"), m_chatSplitter->saveState());
    m_settings.setValue(QStringLiteral("window/inspector"), isInspectorShown());
    m_settings.sync();
}

void MainWindow::restoreState()
{
    restoreGeometry(m_settings.value(QStringLiteral("window/geometry")).toByteArray());
    if (!m_chatSplitter->restoreState(m_settings.value(QStringLiteral("window/chatSplitter")).toByteArray()))
        m_chatSplitter->setSizes({1014, 520});
    m_chatSplitter->setHandleWidth(1);
    setInspectorShown(m_settings.value(QStringLiteral("window/inspector"), true).toBool());
    m_inspector->setVisible(isInspectorShown());
    m_narrow = false;
    makeRoom();
}

/// In a narrow window the live cards make room for the chat; the menu still brings them back.
void MainWindow::makeRoom()
{
    const bool narrow = width() < narrowWidth;
    if (narrow == m_narrow)
        return;
    m_narrow = narrow;
    m_madeRoom = narrow && isInspectorShown();
    m_inspector->setVisible(isInspectorShown() && !narrow);
}

void MainWindow::resizeEvent(QResizeEvent *event)
{
    QMainWindow::resizeEvent(event);
    makeRoom();
}

void MainWindow::dragEnterEvent(QDragEnterEvent *event)
{
    const QList<QUrl> urls = event->mimeData()->urls();
    if (urls.size() == 1 && urls[0].isLocalFile())
        event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent *event)
{
    event->acceptProposedAction();
    openModel(event->mimeData()->urls().constFirst().toLocalFile());
}

} // namespace ui
