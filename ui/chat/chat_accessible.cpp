// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/chat_accessible.h"

#include "ui/chat/chat_view.h"

#include <QAccessible>
#include <QAccessibleWidget>
#include <QWindow>

#include <vector>

namespace ui {
namespace {

constexpr int longestName = 4000; // characters of a message that are read out

/// What messages and buttons have in common: they are painted, not QObjects.
class PaintedItem : public QAccessibleInterface {
public:
    explicit PaintedItem(ChatView *view)
        : m_view(view)
    {
    }
    [[nodiscard]] QObject *object() const override { return nullptr; }
    [[nodiscard]] QWindow *window() const override { return m_view ? m_view->window()->windowHandle() : nullptr; }
    [[nodiscard]] QAccessibleInterface *childAt(int, int) const override { return nullptr; }
    void setText(QAccessible::Text, const QString &) override { }

protected:
    [[nodiscard]] QRect toGlobal(const QRect &rect) const
    {
        return rect.translated(m_view->viewport()->mapToGlobal(QPoint()));
    }

    QPointer<ChatView> m_view;
};

class ButtonAccessible final : public PaintedItem, public QAccessibleActionInterface {
public:
    ButtonAccessible(ChatView *view, int message, int index)
        : PaintedItem(view)
        , m_message(message)
        , m_index(index)
    {
    }

    [[nodiscard]] bool isValid() const override
    {
        return m_view && m_message < m_view->document().messageCount()
            && m_index < m_view->messageTargets(m_message).size();
    }
    [[nodiscard]] QAccessibleInterface *parent() const override
    {
        return QAccessible::queryAccessibleInterface(m_view)->child(m_message);
    }
    [[nodiscard]] QAccessibleInterface *child(int) const override { return nullptr; }
    [[nodiscard]] int childCount() const override { return 0; }
    [[nodiscard]] int indexOfChild(const QAccessibleInterface *) const override { return -1; }
    [[nodiscard]] QAccessible::Role role() const override { return QAccessible::Button; }
    [[nodiscard]] QAccessible::State state() const override
    {
        QAccessible::State state;
        if (!isValid() || target().kind != BlockTarget::Kind::Fold)
            return state;
        state.expandable = true;
        state.expanded = m_view->document().message(m_message).view.unfolded;
        state.collapsed = !state.expanded;
        return state;
    }
    [[nodiscard]] QRect rect() const override { return isValid() ? toGlobal(target().rect.toRect()) : QRect(); }
    [[nodiscard]] QString text(QAccessible::Text type) const override
    {
        return type == QAccessible::Name && isValid() ? target().label : QString();
    }
    void *interface_cast(QAccessible::InterfaceType type) override
    {
        return type == QAccessible::ActionInterface ? static_cast<QAccessibleActionInterface *>(this) : nullptr;
    }
    [[nodiscard]] QStringList actionNames() const override { return {pressAction()}; }
    void doAction(const QString &name) override
    {
        if (name == pressAction() && isValid())
            m_view->trigger(m_message, target());
    }
    [[nodiscard]] QStringList keyBindingsForAction(const QString &) const override { return {}; }

private:
    [[nodiscard]] BlockTarget target() const { return m_view->messageTargets(m_message).value(m_index); }

    int m_message;
    int m_index;
};

/// Keeps the interfaces of children that were asked for.
class Children {
public:
    ~Children()
    {
        for (const QAccessible::Id id : m_ids)
            QAccessible::deleteAccessibleInterface(id);
    }
    template<typename Make> QAccessibleInterface *at(int index, Make make)
    {
        while (static_cast<int>(m_ids.size()) <= index)
            m_ids.push_back(QAccessible::registerAccessibleInterface(make(static_cast<int>(m_ids.size()))));
        return QAccessible::accessibleInterface(m_ids[static_cast<std::size_t>(index)]);
    }
    [[nodiscard]] int indexOf(const QAccessibleInterface *child) const
    {
        const QAccessible::Id id = QAccessible::uniqueId(const_cast<QAccessibleInterface *>(child));
        for (std::size_t i = 0; i < m_ids.size(); ++i)
            if (m_ids[i] == id)
                return static_cast<int>(i);
        return -1;
    }

private:
    std::vector<QAccessible::Id> m_ids;
};

class MessageAccessible final : public PaintedItem {
public:
    MessageAccessible(ChatView *view, int index)
        : PaintedItem(view)
        , m_index(index)
    {
    }

    [[nodiscard]] bool isValid() const override { return m_view && m_index < m_view->document().messageCount(); }
    [[nodiscard]] QAccessibleInterface *parent() const override
    {
        return QAccessible::queryAccessibleInterface(m_view);
    }
    [[nodiscard]] int childCount() const override
    {
        return isValid() ? static_cast<int>(m_view->messageTargets(m_index).size()) : 0;
    }
    [[nodiscard]] QAccessibleInterface *child(int index) const override
    {
        if (index < 0 || index >= childCount())
            return nullptr;
        return m_children.at(index, [this](int i) { return new ButtonAccessible(m_view, m_index, i); });
    }
    [[nodiscard]] int indexOfChild(const QAccessibleInterface *child) const override
    {
        return m_children.indexOf(child);
    }
    [[nodiscard]] QAccessible::Role role() const override { return QAccessible::ListItem; }
    [[nodiscard]] QAccessible::State state() const override
    {
        QAccessible::State state;
        state.readOnly = true;
        state.focusable = true;
        state.focused = isValid() && m_view->currentMessage() == m_view->document().message(m_index).view.id;
        return state;
    }
    [[nodiscard]] QRect rect() const override { return isValid() ? toGlobal(m_view->messageRect(m_index)) : QRect(); }
    [[nodiscard]] QString text(QAccessible::Text type) const override
    {
        if (type != QAccessible::Name || !isValid())
            return {};
        const ViewMessage &message = m_view->document().message(m_index).view;
        const QString notice = message.notice.text.isEmpty() ? QString() : u' ' + message.notice.text;
        QString calls;
        for (const ToolCallText &call : message.calls)
            calls += u' ' + ChatView::tr("Tool call") + u' ' + call.name.left(longestName);
        const QString answer = isThinking(message) ? thoughtLabel(message) : message.source.left(longestName);
        return message.sender + QStringLiteral(": ") + answer + calls + notice;
    }

private:
    int m_index;
    mutable Children m_children;
};

class ChatAccessible final : public QAccessibleWidget {
public:
    explicit ChatAccessible(ChatView *view)
        : QAccessibleWidget(view, QAccessible::List)
        , m_view(view)
    {
    }

    [[nodiscard]] int childCount() const override { return m_view->document().messageCount(); }
    [[nodiscard]] QAccessibleInterface *child(int index) const override
    {
        if (index < 0 || index >= childCount())
            return nullptr;
        return m_children.at(index, [this](int i) { return new MessageAccessible(m_view, i); });
    }
    [[nodiscard]] int indexOfChild(const QAccessibleInterface *child) const override
    {
        return m_children.indexOf(child);
    }

private:
    ChatView *m_view;
    mutable Children m_children;
};

QAccessibleInterface *makeInterface(const QString &, QObject *object)
{
    auto *view = qobject_cast<ChatView *>(object);
    return view ? new ChatAccessible(view) : nullptr;
}

} // namespace

void installChatAccessibility()
{
    static const bool once = [] {
        QAccessible::installFactory(makeInterface);
        return true;
    }();
    Q_UNUSED(once);
}

} // namespace ui
