// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/chat_page.h"

#include "ui/chat/chat_dialogs.h"
#include "ui/chat/chat_list.h"
#include "ui/chat/chat_model.h"
#include "ui/chat/chat_runner.h"
#include "ui/chat/chat_store.h"
#include "ui/chat/chat_view.h"
#include "ui/chat/composer.h"
#include "ui/chat/context_meter.h"
#include "ui/chat/prompt_edit.h"
#include "ui/engine_client.h"
#include "ui/format.h"
#include "ui/settings.h"
#include "ui/theme.h"
#include "ui/widgets/elided_label.h"
#include "ui/widgets/notice_bar.h"
#include "ui/widgets/pill.h"

#include <QFocusEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QListView>
#include <QPainter>
#include <QScrollBar>
#include <QShortcut>
#include <QVBoxLayout>

#include <utility>

namespace ui {
namespace {

constexpr int headerHeight = 58;
constexpr int listWidth = 236;
constexpr int flushMs = 3000;

} // namespace

ChatPage::ChatPage(Theme &theme, EngineClient &client, Settings &settings, QWidget *parent)
    : QWidget(parent)
    , m_theme(theme)
    , m_client(client)
    , m_store(new ChatStore(paths::data() + QStringLiteral("/chats.sqlite"), this))
    , m_model(new ChatModel([this] { return m_store->newId(); }, this))
    , m_runner(new ChatRunner(client, *m_model, this))
{
    createWidgets();
    createLayout();
    createShortcuts();
    connectStore();
    connectRunner();
    connectEngine();
    const auto readSettings = [this, &settings] {
        m_composer->edit()->setControlEnterSends(settings.value(QStringLiteral("chat/ctrlEnterSends"), false).toBool());
    };
    connect(&settings, &Settings::changed, this, readSettings);
    readSettings();
    newChat();
    m_store->open();
}

ChatPage::~ChatPage() = default;

void ChatPage::createWidgets()
{
    m_list = new ChatList(m_theme, *m_model, this);
    m_title = new ElidedLabel(this);
    m_title->setFont(m_theme.ui(15, QFont::DemiBold));
    m_variants = new Pill(m_theme, {}, this);
    m_variants->setLabelOnly(true);
    m_meter = new ContextMeter(m_theme, this);
    m_notice = new NoticeBar(m_theme, this);
    m_notice->hide();
    m_view = new ChatView(m_theme, this);
    m_empty = new QLabel(m_view);
    m_empty->setTextFormat(Qt::PlainText);
    m_empty->setAlignment(Qt::AlignCenter);
    m_empty->setProperty("tone", QStringLiteral("muted"));
    m_empty->setAttribute(Qt::WA_TransparentForMouseEvents);
    m_composer = new Composer(m_theme, this);
    m_composer->setSampling(m_client.sampling());
    connect(m_list, &ChatList::chatActivated, this, &ChatPage::openChat);
    connect(m_list, &ChatList::newChatRequested, this, &ChatPage::newChat);
    connect(m_list, &ChatList::chatRemoved, this, &ChatPage::leaveRemoved);
    connect(m_view, &ChatView::actionTriggered, this, &ChatPage::doAction);
    connect(m_view, &ChatView::menuRequested, this, &ChatPage::showMessageMenu);
    connect(m_view, &ChatView::linkActivated, this, [this](const QString &address) { askToOpenLink(this, address); });
    connect(m_composer, &Composer::sendRequested, this, &ChatPage::takeSend);
    connect(m_composer, &Composer::stopRequested, this, &ChatPage::stop);
    connect(m_composer, &Composer::systemPromptRequested, this, &ChatPage::editSystem);
    connect(m_composer, &Composer::samplingRequested, this, &ChatPage::samplingRequested);
    connect(m_composer->edit(), &PromptEdit::previousRequested, this, &ChatPage::editLast);
}

void ChatPage::createLayout()
{
    auto *header = new QHBoxLayout;
    header->setContentsMargins(24, 0, 24, 0);
    header->setSpacing(16);
    header->addWidget(m_title, 1);
    header->addWidget(m_variants);
    header->addWidget(m_meter);
    auto *top = new QWidget(this);
    top->setFixedHeight(headerHeight);
    top->setLayout(header);
    m_bottom = new QHBoxLayout;
    alignComposer();
    connect(m_view->verticalScrollBar(), &QScrollBar::rangeChanged, this, &ChatPage::alignComposer);
    m_composer->setMaximumWidth(static_cast<int>(metrics::columnWidth));
    m_bottom->addWidget(m_composer);
    auto *column = new QVBoxLayout;
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(0);
    column->addWidget(top);
    column->addWidget(m_notice);
    column->addWidget(m_view, 1);
    column->addLayout(m_bottom);
    auto *row = new QHBoxLayout(this);
    row->setContentsMargins(0, 0, 0, 0);
    row->setSpacing(0);
    m_list->setFixedWidth(listWidth);
    row->addWidget(m_list);
    row->addLayout(column, 1);
    setTabOrder(m_list->view(), m_view);
    setTabOrder(m_view, m_composer->edit());
}

void ChatPage::createShortcuts()
{
    const auto add = [this](const QKeySequence &keys, auto slot) {
        auto *shortcut = new QShortcut(keys, this);
        shortcut->setContext(Qt::WidgetWithChildrenShortcut);
        connect(shortcut, &QShortcut::activated, this, slot);
    };
    add(QKeySequence(Qt::CTRL | Qt::Key_N), &ChatPage::newChat);
    add(QKeySequence(Qt::CTRL | Qt::Key_K), [this] { m_list->focusSearch(); });
    add(QKeySequence(Qt::CTRL | Qt::Key_R), &ChatPage::regenerateLast);
    add(QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_C), &ChatPage::copyLastAnswer);
    add(QKeySequence(Qt::ALT | Qt::Key_Left), [this] { stepVariant(-1); });
    add(QKeySequence(Qt::ALT | Qt::Key_Right), [this] { stepVariant(1); });
    add(QKeySequence(Qt::Key_Escape), &ChatPage::escape);
}

void ChatPage::connectStore()
{
    connect(m_model, &ChatModel::changed, this, [this](const StoreChanges &changes) {
        for (const StoreChange &change : changes)
            if (const auto *message = std::get_if<MessageRecord>(&change))
                m_unsaved.insert(message->id);
        m_store->put(changes);
    });
    connect(m_model, &ChatModel::branchChanged, this, [this](qint64 chatId) {
        if (chatId == m_chat)
            showBranch();
    });
    connect(m_model, &QAbstractItemModel::dataChanged, this, &ChatPage::showHeader);
    connect(m_list, &ChatList::searchRequested, m_store, &ChatStore::search);
    connect(m_store, &ChatStore::chatsLoaded, this, [this](const QVector<ChatRecord> &chats) {
        m_model->addStored(chats);
        m_list->setCurrent(m_chat);
    });
    connect(m_store, &ChatStore::messagesLoaded, m_model, &ChatModel::addStoredMessages);
    connect(m_store, &ChatStore::found, this, [this](const QString &text, const QVector<qint64> &chats) {
        if (m_list->isSearchingFor(text))
            m_model->setFilter(text, chats);
    });
    connect(m_store, &ChatStore::saved, this, [this](const QVector<SavedMessage> &messages) {
        for (const SavedMessage &message : messages)
            if (message.finished)
                m_unsaved.remove(message.id);
    });
    connect(m_store, &ChatStore::statusChanged, this, &ChatPage::showStoreStatus);
    connect(m_notice, &NoticeBar::dismissed, m_notice, &QWidget::hide);
}

void ChatPage::connectRunner()
{
    connect(m_runner, &ChatRunner::started, this, [this](qint64 chatId) {
        if (chatId != m_chat)
            return;
        updateComposer();
        showFooters();
        m_view->jumpToEnd();
        m_composer->edit()->setFocus();
    });
    connect(m_runner, &ChatRunner::textAppended, this,
            [this](qint64 chatId, qint64 messageId, const QString &text, MessagePart part) {
                if (chatId == m_chat)
                    m_view->append(messageId, text, part);
            });
    connect(m_runner, &ChatRunner::thoughtOver, this, [this](qint64 chatId, qint64 messageId, double ms) {
        if (chatId == m_chat)
            m_view->setReasoningTime(messageId, ms);
    });
    connect(m_runner, &ChatRunner::progressed, this, [this](qint64 chatId) {
        if (chatId != m_chat || m_shown.isEmpty())
            return;
        m_view->setFooter(
            m_shown.last(),
            {m_runner->progressText(chatId), {{QString::fromUtf16(action::stop), tr("Stop"), tr("Esc")}}});
        showContext();
    });
    connect(m_runner, &ChatRunner::finished, this, [this](qint64 chatId, qint64 messageId) {
        if (chatId != m_chat)
            return;
        if (const MessageRecord *message = m_model->message(chatId, messageId)) {
            const MessageSurroundings around = surroundingsOf(*message);
            m_view->finish(messageId, footerOf(*message, around), noticeOf(*message, around));
        }
        showFooters();
        showContext();
        updateComposer();
    });
}

void ChatPage::connectEngine()
{
    const auto refresh = [this] {
        updateComposer();
        showFooters();
        showContext();
    };
    connect(&m_client, &EngineClient::loadStarted, this, refresh);
    connect(&m_client, &EngineClient::modelLoaded, this, refresh);
    connect(&m_client, &EngineClient::loadFailed, this, refresh);
    connect(&m_client, &EngineClient::modelUnloaded, this, refresh);
    connect(&m_client, &EngineClient::samplingChanged, this, [this] { m_composer->setSampling(m_client.sampling()); });
}

MessageSurroundings ChatPage::surroundingsOf(const MessageRecord &message) const
{
    MessageSurroundings around;
    const QVector<qint64> variants = m_model->variants(m_chat, message.id);
    around.variants = static_cast<int>(variants.size());
    around.variant = static_cast<int>(variants.indexOf(message.id));
    around.notSaved = m_unsaved.contains(message.id) && !m_store->status().saving
        && m_store->status().mode != StoreStatus::Mode::Opening;
    around.mayAsk = m_client.model().has_value() && !m_runner->isRunning(m_chat);
    if (m_client.model()) {
        around.maxModelLen = m_client.model()->effective.maxModelLen;
        around.contextLength = m_client.model()->contextLength;
    }
    return around;
}

/// Brings the view to the shown branch; what both have at the beginning stays.
void ChatPage::showBranch()
{
    const QVector<MessageRecord> branch = m_model->branch(m_chat);
    qsizetype same = 0;
    while (same < m_shown.size() && same < branch.size() && m_shown[same] == branch[same].id)
        ++same;
    if (same < m_shown.size())
        m_view->removeFrom(m_shown[same]);
    m_shown.resize(same);
    std::vector<ViewMessage> added;
    for (qsizetype i = same; i < branch.size(); ++i) {
        added.push_back(viewMessageOf(branch[i], surroundingsOf(branch[i])));
        m_shown.append(branch[i].id);
    }
    m_view->addMessages(added);
    showFooters();
    showHeader();
    showContext();
    updateEmptyText();
}

void ChatPage::showFooters()
{
    for (const qint64 id : std::as_const(m_shown)) {
        const MessageRecord *message = m_model->message(m_chat, id);
        if (!message)
            continue;
        if (message->state == MessageState::Streaming)
            m_view->setFooter(
                id, {m_runner->progressText(m_chat), {{QString::fromUtf16(action::stop), tr("Stop"), tr("Esc")}}});
        else
            m_view->setFooter(id, footerOf(*message, surroundingsOf(*message)));
    }
}

void ChatPage::showHeader()
{
    const ChatModel::Chat *chat = m_model->chat(m_chat);
    const QString title = chat && !chat->record.title.isEmpty() ? chat->record.title : tr("New chat");
    m_title->setText(title);
    m_title->setToolTip(title.toHtmlEscaped());
    const int variants = m_shown.isEmpty() ? 0 : static_cast<int>(m_model->variants(m_chat, m_shown.last()).size());
    m_variants->setText(tr("%1 variants").arg(variants));
    m_variants->setVisible(variants > 1);
}

void ChatPage::showContext()
{
    int used = m_runner->contextTokens(m_chat);
    for (auto it = m_shown.crbegin(); used == 0 && it != m_shown.crend(); ++it)
        if (const MessageRecord *message = m_model->message(m_chat, *it))
            used = message->promptTokens + message->completionTokens;
    if (used == 0 && !m_shown.isEmpty())
        used = ContextMeter::unknown; // an answer that a kill cut short has no figures
    m_meter->setTokens(used, m_client.model() ? m_client.model()->effective.maxModelLen : 0);
}

void ChatPage::showStoreStatus()
{
    const StoreStatus &status = m_store->status();
    if (status.reason.isEmpty())
        m_notice->hide();
    else if (status.saving)
        m_notice->showNotice(NoticeBar::Tone::Warning, status.reason);
    else
        m_notice->showNotice(NoticeBar::Tone::Warning,
                             tr("Chats are not saved. %1").arg(format::sentence(status.reason)));
    showFooters();
}

void ChatPage::updateComposer()
{
    const ChatModel::Chat *chat = m_model->chat(m_chat);
    m_composer->setRunning(m_runner->isRunning(m_chat));
    m_composer->setSystemPrompt(chat ? chat->record.systemPrompt : QString());
    m_composer->setHint(m_editing != 0 ? tr("Editing a message, Esc cancels") : QString());
    m_composer->setBlocked(m_client.model() ? QString()
                               : m_client.isLoading()
                               ? tr("The model is loading")
                               : tr("No model is open. Press Ctrl+O, or drop a model on the window"));
    updateEmptyText();
}

void ChatPage::updateEmptyText()
{
    m_empty->setVisible(m_shown.isEmpty());
    m_empty->setText(m_client.model()
                         ? tr("What you ask and what the model answers appear here, and stay on this computer.")
                         : tr("Open a model with Ctrl+O to talk to it. Chats of before can be read without one."));
    placeEmptyText();
}

void ChatPage::placeEmptyText()
{
    m_empty->setFont(m_theme.ui(14));
    m_empty->adjustSize();
    m_empty->move((m_view->width() - m_empty->width()) / 2, m_view->height() * 2 / 5);
}

/// The composer stands under the column of text, which makes room for the scroll bar.
void ChatPage::alignComposer()
{
    const QScrollBar *bar = m_view->verticalScrollBar();
    const int taken = bar->maximum() > bar->minimum() ? bar->sizeHint().width() : 0;
    m_bottom->setContentsMargins(24, 4, 24 + taken, 20);
}

/// Who comes to this place wants to write.
void ChatPage::focusInEvent(QFocusEvent *event)
{
    QWidget::focusInEvent(event);
    m_composer->edit()->setFocus(event->reason());
}

void ChatPage::resizeEvent(QResizeEvent *event)
{
    QWidget::resizeEvent(event);
    placeEmptyText();
}

void ChatPage::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    painter.fillRect(rect(), m_theme.tokens().bg);
    painter.fillRect(QRect(m_list->width(), headerHeight - 1, width() - m_list->width(), 1), m_theme.tokens().line);
}

void ChatPage::flush()
{
    m_store->flush(flushMs);
}

} // namespace ui
