// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/chat/chat_view.h"

#include <QEventLoop>
#include <QString>
#include <QTimer>

#include <vector>

/// Messages and helpers that the tests of the conversation share.
namespace chat_fixtures {

using ui::ChatView;
using ui::ViewMessage;

inline const QString &sample()
{
    static const QString text = QStringLiteral(
        "A KV cache grows by **one entry** per token. Reserving the longest answer for *every* request wastes "
        "memory.\n\n"
        "Paged attention cuts it into `blocks` of 16 tokens, see [the paper](https://arxiv.org/abs/2309.06180).\n\n"
        "```cpp\nint block = table[token / blockSize]; // which\nconst half *key = pool + (block * blockSize) * "
        "headDim;\n```\n\n"
        "1. first\n2. second with `code`\n   - nested\n   - more\n3. third\n\n"
        "| size | waste | note |\n|---:|---:|---|\n| 16 | 1.8 % | the usual one |\n| 64 | 6 % | fewer tables |\n\n"
        "> A quote\n> of two lines\n\nThe end.\n");
    return text;
}

inline ViewMessage user(qint64 id, const QString &text)
{
    ViewMessage m;
    m.id = id;
    m.role = ViewMessage::Role::User;
    m.sender = QStringLiteral("You");
    m.source = text;
    m.footer.actions = {{QStringLiteral("edit"), QStringLiteral("Edit"), {}},
                        {QStringLiteral("copy"), QStringLiteral("Copy"), {}}};
    return m;
}

inline ViewMessage assistant(qint64 id, const QString &text, bool done = true)
{
    ViewMessage m;
    m.id = id;
    m.role = ViewMessage::Role::Assistant;
    m.sender = QStringLiteral("SmolLM2");
    m.source = text;
    m.done = done;
    m.footer.text = QStringLiteral("TTFT 84 ms   41.2 tok/s   128 tokens   prompt 212 (192 cached)");
    m.footer.actions = {{QStringLiteral("copy"), QStringLiteral("Copy"), {}},
                        {QStringLiteral("regenerate"), QStringLiteral("Regenerate"), {}}};
    if (!done)
        m.footer = {QStringLiteral("Writing"),
                    {{QStringLiteral("stop"), QStringLiteral("Stop"), QStringLiteral("Esc")}}};
    return m;
}

/// About 200,000 tokens: 400 messages, 875 KB.
inline void addHistory(ChatView &view, qint64 firstId = 1)
{
    QString answer;
    while (answer.size() < 4200)
        answer += sample();
    std::vector<ViewMessage> messages;
    for (int i = 0; i < 200; ++i) {
        messages.push_back(user(firstId + 2 * i, QStringLiteral("Question %1, in a line.").arg(i)));
        messages.push_back(assistant(firstId + 2 * i + 1, answer.left(4200 + i)));
    }
    view.addMessages(messages);
}

/// Lets the event loop run as in the program; QTest::qWait would sleep between events.
inline void runLoop(int ms)
{
    QEventLoop loop;
    QTimer::singleShot(ms, Qt::PreciseTimer, &loop, &QEventLoop::quit);
    loop.exec();
}

} // namespace chat_fixtures
