// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/chat_page.h"

#include "ui/chat/answer_facts.h"
#include "ui/chat/chat_dialogs.h"
#include "ui/chat/chat_list.h"
#include "ui/chat/chat_model.h"
#include "ui/chat/chat_runner.h"
#include "ui/chat/chat_store.h"
#include "ui/chat/chat_view.h"
#include "ui/chat/composer.h"
#include "ui/chat/prompt_edit.h"
#include "ui/chat/tool_calls.h"
#include "ui/engine_client.h"

#include <QApplication>
#include <QClipboard>
#include <QMenu>

#include <algorithm>
#include <utility>

namespace ui {

void ChatPage::newChat()
{
    const ChatModel::Chat *chat = m_model->chat(m_chat);
    if (chat && chat->record.messageCount == 0 && chat->record.deletedMs == 0) {
        m_composer->edit()->setFocus();
        return;
    }
    openChat(m_model->addChat());
}

void ChatPage::openChat(qint64 id)
{
    const ChatModel::Chat *chat = m_model->chat(id);
    if (!chat)
        return;
    if (id != m_chat) {
        const qint64 left = std::exchange(m_chat, id);
        m_drafts[left] = m_editing != 0 ? QString() : m_composer->edit()->toPlainText();
        m_editing = 0;
        m_composer->edit()->setPlainText(m_drafts.value(id));
        m_view->clear();
        m_shown.clear();
        if (const ChatModel::Chat *before = m_model->chat(left);
            before && before->record.messageCount == 0 && m_drafts[left].isEmpty())
            m_model->purge(left); // an empty chat that was left is no chat
        if (!m_model->chat(id)->loaded)
            m_store->loadMessages(id);
        showBranch();
    }
    m_list->setCurrent(id);
    updateComposer();
    m_composer->edit()->setFocus();
}

void ChatPage::leaveRemoved(qint64 removed)
{
    m_runner->stop(removed);
    if (removed != m_chat)
        return;
    m_chat = 0;
    openChat(m_model->rowCount() > 0 ? m_model->index(0).data(ChatModel::IdRole).toLongLong() : m_model->addChat());
}

void ChatPage::send(const QString &text)
{
    if (!text.trimmed().isEmpty())
        m_runner->send(m_chat, text);
}

void ChatPage::takeSend(const QString &text)
{
    m_composer->edit()->clear();
    m_drafts.remove(m_chat);
    const qint64 edited = std::exchange(m_editing, 0);
    if (edited != 0)
        m_runner->resend(m_chat, edited, text);
    else
        send(text);
    updateComposer();
}

void ChatPage::stop()
{
    m_runner->stop(m_chat);
}

void ChatPage::escape()
{
    if (m_list->clearSearch())
        return;
    if (m_editing != 0)
        cancelEdit();
    else if (m_runner->isRunning(m_chat))
        stop();
    else
        m_composer->edit()->setFocus();
}

qint64 ChatPage::lastOf(const QString &role) const
{
    for (auto it = m_shown.crbegin(); it != m_shown.crend(); ++it)
        if (const MessageRecord *message = m_model->message(m_chat, *it); message && message->role == role)
            return *it;
    return 0;
}

void ChatPage::regenerateLast()
{
    if (m_client.model() && !m_shown.isEmpty())
        m_runner->regenerate(m_chat, m_shown.last());
}

void ChatPage::doAction(qint64 messageId, const QString &name)
{
    if (name == action::stop)
        stop();
    else if (name == action::copy)
        copyMessage(messageId);
    else if (name == action::edit)
        beginEdit(messageId);
    else if (name == action::regenerate && m_client.model())
        m_runner->regenerate(m_chat, messageId);
    else if (name == action::previousVariant || name == action::nextVariant)
        m_model->showVariant(m_chat, messageId, name == action::nextVariant ? 1 : -1);
    else if (name == action::why)
        showWhy(messageId);
    else if (name == action::continueInNewChat)
        continueInNewChat();
    else if (name == action::shorten)
        editLast();
    else if (name == action::reloadLonger)
        reloadWithLongerContext();
}

void ChatPage::showMessageMenu(qint64 messageId, const QPoint &at)
{
    const MessageRecord *message = m_model->message(m_chat, messageId);
    if (!message)
        return;
    auto *menu = new QMenu(this);
    menu->setAttribute(Qt::WA_DeleteOnClose);
    if (!m_view->selectedText().isEmpty())
        menu->addAction(tr("Copy selection"), m_view, &ChatView::copySelection);
    menu->addAction(tr("Copy message"), this, [this, messageId] { copyMessage(messageId); });
    const int index = m_view->document().indexOf(messageId);
    int number = 0;
    for (const BlockTarget &target : m_view->messageTargets(index)) {
        if (target.kind == BlockTarget::Kind::CopyCode)
            menu->addAction(tr("Copy code %1").arg(++number), this,
                            [this, index, target] { m_view->trigger(index, target); });
        else if (target.kind == BlockTarget::Kind::Fold)
            menu->addAction(m_view->document().message(index).view.unfolded ? tr("Hide the reasoning")
                                                                            : tr("Show the reasoning"),
                            this, [this, index, target] { m_view->trigger(index, target); });
        else if (target.kind == BlockTarget::Kind::Action && target.id != action::copy && target.id != action::why)
            menu->addAction(target.label, this, [this, messageId, name = target.id] { doAction(messageId, name); });
    }
    if (AnswerFacts::fromText(message->facts))
        menu->addAction(tr("Why was this slow?"), this, [this, messageId] { showWhy(messageId); });
    menu->popup(at);
}

void ChatPage::showWhy(qint64 messageId)
{
    const MessageRecord *message = m_model->message(m_chat, messageId);
    const auto facts = message ? AnswerFacts::fromText(message->facts) : std::nullopt;
    if (!facts)
        return;
    const SlowVerdict verdict = whySlow(*facts);
    showSentences(this, verdict.slow ? tr("Why was this slow?") : tr("Not slow"), verdict.sentences);
}

void ChatPage::beginEdit(qint64 messageId)
{
    const MessageRecord *message = m_model->message(m_chat, messageId);
    if (!message || m_runner->isRunning(m_chat))
        return;
    if (m_editing == 0)
        m_drafts[m_chat] = m_composer->edit()->toPlainText();
    m_editing = messageId;
    m_composer->edit()->setPlainText(message->text);
    m_composer->edit()->moveCursor(QTextCursor::End);
    m_composer->edit()->setFocus();
    updateComposer();
}

void ChatPage::cancelEdit()
{
    m_editing = 0;
    m_composer->edit()->setPlainText(m_drafts.value(m_chat));
    updateComposer();
}

void ChatPage::editLast()
{
    beginEdit(lastOf(QStringLiteral("user")));
}

void ChatPage::stepVariant(int by)
{
    const qint64 message =
        m_view->currentMessage() != 0 ? m_view->currentMessage() : lastOf(QStringLiteral("assistant"));
    if (!m_runner->isRunning(m_chat))
        m_model->showVariant(m_chat, message, by);
}

void ChatPage::copyMessage(qint64 messageId)
{
    const MessageRecord *message = m_model->message(m_chat, messageId);
    if (!message)
        return;
    const QString text = message->text.isEmpty() ? readableToolCalls(message->toolCalls) : message->text;
    if (!text.isEmpty()) // an answer that is only thought about has nothing to copy yet
        QApplication::clipboard()->setText(text);
}

void ChatPage::copyLastAnswer()
{
    copyMessage(lastOf(QStringLiteral("assistant")));
}

/// Goes on with as many of the last messages as fill about half of the context, beginning with a question.
void ChatPage::continueInNewChat()
{
    const ChatModel::Chat *old = m_model->chat(m_chat);
    QVector<MessageRecord> branch = m_model->branch(m_chat);
    branch.removeIf([](const MessageRecord &m) { return m.text.isEmpty() && m.toolCalls.isEmpty(); });
    if (!old || branch.isEmpty())
        return;
    qsizetype characters = 0;
    for (const MessageRecord &message : std::as_const(branch))
        characters += message.text.size();
    qsizetype first = branch.size() - 1;
    for (qsizetype kept = branch[first].text.size(); first > 0; --first) {
        kept += branch[first - 1].text.size();
        if (kept > characters / 2)
            break;
    }
    while (first + 1 < branch.size() && branch[first].role != u"user")
        ++first;
    const QString title = old->record.title;
    const qint64 chat = m_model->addChat(old->record.systemPrompt);
    qint64 parent = 0;
    for (qsizetype i = first; i < branch.size(); ++i) {
        MessageRecord copy =
            m_model->addMessage(chat, parent, branch[i].role, branch[i].text, MessageState::Done, branch[i].model);
        copy.reasoning = branch[i].reasoning;
        copy.reasoningMs = branch[i].reasoningMs;
        copy.toolCalls = branch[i].toolCalls;
        if (!copy.reasoning.isEmpty() || !copy.toolCalls.isEmpty())
            m_model->putMessage(copy);
        parent = copy.id;
    }
    m_model->rename(chat, tr("%1 (continued)").arg(title));
    openChat(chat);
    if (branch.last().role == u"user")
        m_runner->regenerate(chat, parent);
}

void ChatPage::reloadWithLongerContext()
{
    if (!m_client.model())
        return;
    MessageSurroundings around;
    around.maxModelLen = m_client.model()->effective.maxModelLen;
    around.contextLength = m_client.model()->contextLength;
    const int longer = longerContext(around);
    if (longer == 0)
        return;
    engine::EngineConfig config = m_client.config();
    config.maxModelLen = longer;
    m_client.setConfig(config);
    m_client.loadModel(QString::fromStdString(m_client.model()->path));
}

void ChatPage::editSystem()
{
    const ChatModel::Chat *chat = m_model->chat(m_chat);
    if (!chat)
        return;
    editSystemPrompt(this, chat->record.systemPrompt, [this, id = m_chat](const QString &prompt) {
        m_model->setSystemPrompt(id, prompt);
        updateComposer();
    });
}

} // namespace ui
