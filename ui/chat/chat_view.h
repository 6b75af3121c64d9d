// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/chat/block_layout.h"
#include "ui/chat/block_painter.h"
#include "ui/chat/chat_document.h"
#include "ui/chat/text_selection.h"

#include <QAbstractScrollArea>
#include <QBasicTimer>
#include <QPointer>

class QPushButton;

namespace ui {

class Theme;

/// The conversation: a long list of messages, the last of which may stream.
///
/// New text is only noted; one frame every frameMs splits, lays out and paints what came since. Blocks are laid out
/// when they are first seen, so length costs nothing. The view follows the end only while it is there; a reader who
/// scrolled away is left in peace. Content can load nothing: it is text, and links only say where they lead.
///
/// Thread: the UI.
class ChatView final : public QAbstractScrollArea {
    Q_OBJECT

public:
    explicit ChatView(const Theme &theme, QWidget *parent = nullptr);
    ~ChatView() override;

    void clear();
    /// \pre all messages but the last one are done
    void addMessage(const ViewMessage &message) { addMessages({message}); }
    void addMessages(const std::vector<ViewMessage> &messages);
    void append(qint64 id, const QString &text, MessagePart part = MessagePart::Text);
    /// How long the reasoning of a message took, once that is known.
    void setReasoningTime(qint64 id, double ms);
    /// Shows or hides the reasoning of a message; its line stays where it is.
    void setUnfolded(qint64 id, bool on);
    void finish(qint64 id, const MessageFooter &footer, const MessageNotice &notice = {});
    void setFooter(qint64 id, const MessageFooter &footer);
    /// Removes this message and all after it.
    void removeFrom(qint64 id);
    /// Splits and lays out what was appended since the last frame.
    void flush();

    [[nodiscard]] const ChatDocument &document() const { return m_document; }
    [[nodiscard]] QString selectedText() const { return m_selection.text(m_document); }
    void selectAll();
    void copySelection();
    [[nodiscard]] bool isFollowing() const { return m_follow; }
    void jumpToEnd();
    /// The message that the keyboard is on; 0 = none.
    [[nodiscard]] qint64 currentMessage() const;
    void setCurrentMessage(qint64 id);

    /// In viewport coordinates, for assistive tools.
    [[nodiscard]] QRect messageRect(int message) const;
    /// The buttons of a message with their places in the viewport.
    [[nodiscard]] QVector<BlockTarget> messageTargets(int message) const;
    /// Does what a click on the target does.
    void trigger(int message, const BlockTarget &target);
    /// The address under a point of the viewport, empty when there is none.
    [[nodiscard]] QString linkAt(const QPointF &at);

    static constexpr int frameMs = 33;

Q_SIGNALS:
    void actionTriggered(qint64 id, const QString &action);
    void linkActivated(const QString &address);
    void menuRequested(qint64 id, const QPoint &globalPosition);
    void codeCopied();

protected:
    void paintEvent(QPaintEvent *event) override;
    void resizeEvent(QResizeEvent *event) override;
    void showEvent(QShowEvent *event) override;
    void changeEvent(QEvent *event) override;
    void scrollContentsBy(int dx, int dy) override;
    void timerEvent(QTimerEvent *event) override;
    void mousePressEvent(QMouseEvent *event) override;
    void mouseMoveEvent(QMouseEvent *event) override;
    void mouseReleaseEvent(QMouseEvent *event) override;
    void mouseDoubleClickEvent(QMouseEvent *event) override;
    void wheelEvent(QWheelEvent *event) override;
    void keyPressEvent(QKeyEvent *event) override;
    void contextMenuEvent(QContextMenuEvent *event) override;
    void focusInEvent(QFocusEvent *event) override;
    void focusOutEvent(QFocusEvent *event) override;
    bool viewportEvent(QEvent *event) override;

private:
    void noteChange(int message);
    void createJumpButton();
    void placeJumpButton();
    void ensure(int block);
    void layOutAgain();
    void updateRange(int changedBlock);
    [[nodiscard]] bool settleVisible();
    bool settleAbove();
    void dropFarLayouts(int first, int last);
    void setScroll(double value);
    void paintBlocks(QPainter &painter, const QRect &dirty);
    void paintTail(QPainter &painter, double y);
    void paintCurrentMark(QPainter &painter);
    void setPointer(const QPointF &at);
    void updateMessage(int message);

    [[nodiscard]] double column() const;
    [[nodiscard]] double left() const;
    [[nodiscard]] double scroll() const;
    [[nodiscard]] double blockTop(int block) const; ///< in the viewport
    [[nodiscard]] double tailHeight() const;
    [[nodiscard]] double contentHeight() const;
    [[nodiscard]] int maximumScroll() const;
    [[nodiscard]] int blockAt(double y) const;
    [[nodiscard]] QPointF toBlock(const QPointF &at, int block) const;
    [[nodiscard]] TextPosition positionAt(const QPointF &at);
    [[nodiscard]] TextPosition codePositionAt(int block, const QPointF &in);
    [[nodiscard]] TextPosition bodyPositionAt(int block, const QPointF &in) const;
    [[nodiscard]] const BlockTarget *targetAt(const QPointF &at, int *message);
    [[nodiscard]] bool pressTarget(const QPointF &at);
    void selectWord(const TextPosition &at);
    void selectPiece(const TextPosition &at);
    void scrollSideways(int block, double by);
    void dragScrollHandle(const QPointF &at);
    void autoScroll();
    void copyCode(const Block &block, int piece);
    void putOnPrimary();
    void moveCurrent(int by);
    void toggleReasoning();

    const Theme &m_theme;
    ChatDocument m_document;
    BlockLayout m_layout;
    BlockPainter m_painter;
    TextSelection m_selection;
    QVector<int> m_dirty; ///< messages with new text
    QBasicTimer m_frame;
    QBasicTimer m_autoScroll;
    QPushButton *m_jump = nullptr;
    QPointF m_pointer{-1, -1};
    QPointF m_pressed{-1, -1};
    QString m_pressedLink;
    BlockTarget m_hit;    ///< the last answer of targetAt
    int m_hovered = -1;   ///< message
    int m_current = -1;   ///< message
    int m_dragBlock = -1; ///< whose scroll handle is dragged
    double m_dragGrab = 0;
    double m_lastTop = 0;
    int m_laidFirst = 0;
    int m_laidLast = -1;
    int m_clicks = 0;
    bool m_follow = true;
    bool m_moving = false;   ///< the view moves the bar, not the user
    bool m_settling = false; ///< positions are being corrected; painting follows
    bool m_selecting = false;
};

} // namespace ui
