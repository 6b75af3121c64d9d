// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/chat/chat_records.h"
#include "ui/chat/message_view.h"

#include <QHash>
#include <QSet>
#include <QWidget>

class QHBoxLayout;
class QLabel;

namespace ui {

class ChatList;
class ChatModel;
class ChatRunner;
class ChatStore;
class ChatView;
class Composer;
class ContextMeter;
class ElidedLabel;
class EngineClient;
class NoticeBar;
class Pill;
class Settings;
class Theme;

/// The place for talking: the list of chats, the shown conversation and the composer. Chats are kept as they stream;
/// several may run at once, and the engine works on them in one batch.
/// Thread: the UI.
class ChatPage final : public QWidget {
    Q_OBJECT

public:
    ChatPage(Theme &theme, EngineClient &client, Settings &settings, QWidget *parent = nullptr);
    ~ChatPage() override;

    /// Shows an empty chat.
    void newChat();
    /// Sends `text` in the shown chat.
    void send(const QString &text);
    void openChat(qint64 id);
    /// Writes what is there to the disk, as before the program ends or the machine sleeps.
    void flush();
    void regenerateLast();
    void stop();
    /// Says what the last answer shown took its time for, when that is known.
    void explainLast() { showWhy(lastOf(QStringLiteral("assistant"))); }

    [[nodiscard]] qint64 currentChat() const { return m_chat; }
    [[nodiscard]] ChatModel &model() const { return *m_model; }
    [[nodiscard]] ChatRunner &runner() const { return *m_runner; }
    [[nodiscard]] ChatStore &store() const { return *m_store; }
    [[nodiscard]] ChatView *view() const { return m_view; }
    [[nodiscard]] ChatList *list() const { return m_list; }
    [[nodiscard]] Composer *composer() const { return m_composer; }
    [[nodiscard]] ContextMeter *contextMeter() const { return m_meter; }
    [[nodiscard]] NoticeBar *notice() const { return m_notice; }

Q_SIGNALS:
    /// The sampling figures were clicked: the place to change them is wanted.
    void samplingRequested(const QString &key);

protected:
    void paintEvent(QPaintEvent *event) override;
    void resizeEvent(QResizeEvent *event) override;
    void focusInEvent(QFocusEvent *event) override;

private:
    void createWidgets();
    void createLayout();
    void createShortcuts();
    void connectStore();
    void connectRunner();
    void connectEngine();

    void showBranch();
    void showHeader();
    void showContext();
    void showStoreStatus();
    void showFooters();
    void updateComposer();
    void updateEmptyText();
    void placeEmptyText();
    void alignComposer();
    [[nodiscard]] MessageSurroundings surroundingsOf(const MessageRecord &message) const;

    void takeSend(const QString &text);
    void doAction(qint64 messageId, const QString &action);
    void showMessageMenu(qint64 messageId, const QPoint &at);
    void showWhy(qint64 messageId);
    void beginEdit(qint64 messageId);
    void cancelEdit();
    void editLast();
    void escape();
    void stepVariant(int by);
    void copyMessage(qint64 messageId);
    void copyLastAnswer();
    void continueInNewChat();
    void reloadWithLongerContext();
    void editSystem();
    void leaveRemoved(qint64 removed);
    [[nodiscard]] qint64 lastOf(const QString &role) const;

    Theme &m_theme;
    EngineClient &m_client;
    ChatStore *m_store;
    ChatModel *m_model;
    ChatRunner *m_runner;
    ChatList *m_list = nullptr;
    ElidedLabel *m_title = nullptr;
    Pill *m_variants = nullptr;
    ContextMeter *m_meter = nullptr;
    NoticeBar *m_notice = nullptr;
    ChatView *m_view = nullptr;
    QLabel *m_empty = nullptr;
    Composer *m_composer = nullptr;
    QHBoxLayout *m_bottom = nullptr;
    qint64 m_chat = 0;
    qint64 m_editing = 0;    ///< message whose text is in the composer
    QVector<qint64> m_shown; ///< messages in the view
    QSet<qint64> m_unsaved;  ///< handed to the store, not announced as saved
    QHash<qint64, QString> m_drafts;
};

} // namespace ui
