// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <QStringList>

#include <functional>

class QWidget;

namespace ui {

/// Shows where a link leads, in full and as plain text, and opens it when the user agrees. Other addresses than http,
/// https and mailto are never asked for.
void askToOpenLink(QWidget *parent, const QString &address);

/// Shows some sentences, one below the other, to read, select and copy.
void showSentences(QWidget *parent, const QString &title, const QStringList &sentences);

/// Lets the user edit a chat's system prompt; `accepted` gets the new text.
void editSystemPrompt(QWidget *parent, const QString &prompt, const std::function<void(const QString &)> &accepted);

} // namespace ui
