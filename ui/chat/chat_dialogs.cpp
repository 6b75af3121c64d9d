// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/chat_dialogs.h"

#include "ui/chat/markdown.h"
#include "ui/translate.h"

#include <QApplication>
#include <QClipboard>
#include <QDesktopServices>
#include <QDialog>
#include <QDialogButtonBox>
#include <QLabel>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QUrl>
#include <QVBoxLayout>

namespace ui {
namespace {

QLabel *plainLabel(const QString &text, QWidget *parent)
{
    auto *label = new QLabel(parent);
    label->setTextFormat(Qt::PlainText);
    label->setText(text);
    label->setWordWrap(true);
    return label;
}

QDialog *makeDialog(QWidget *parent, const QString &title)
{
    auto *dialog = new QDialog(parent);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setWindowTitle(title);
    auto *column = new QVBoxLayout(dialog);
    column->setContentsMargins(20, 18, 20, 16);
    column->setSpacing(12);
    return dialog;
}

} // namespace

void askToOpenLink(QWidget *parent, const QString &address)
{
    if (!isSafeLink(address))
        return;
    const QUrl url(address, QUrl::TolerantMode);
    // Encoded: a host in look-alike letters shows as what it is.
    const QString shown = QString::fromLatin1(url.toEncoded());
    QDialog *dialog = makeDialog(parent, tr("Open a link"));
    dialog->setObjectName(QStringLiteral("linkQuestion"));
    dialog->setMinimumWidth(460);
    dialog->layout()->addWidget(plainLabel(tr("This link leads to"), dialog));
    QLabel *target = plainLabel(shown, dialog);
    target->setObjectName(QStringLiteral("linkAddress"));
    target->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    dialog->layout()->addWidget(target);
    auto *buttons = new QDialogButtonBox(QDialogButtonBox::Cancel, dialog);
    QPushButton *open = buttons->addButton(tr("Open"), QDialogButtonBox::AcceptRole);
    QPushButton *copy = buttons->addButton(tr("Copy address"), QDialogButtonBox::ActionRole);
    dialog->layout()->addWidget(buttons);
    QObject::connect(open, &QPushButton::clicked, dialog, [dialog, url] {
        QDesktopServices::openUrl(url);
        dialog->accept();
    });
    QObject::connect(copy, &QPushButton::clicked, dialog, [dialog, shown] {
        QApplication::clipboard()->setText(shown);
        dialog->accept();
    });
    QObject::connect(buttons, &QDialogButtonBox::rejected, dialog, &QDialog::reject);
    dialog->open();
}

void showSentences(QWidget *parent, const QString &title, const QStringList &sentences)
{
    QDialog *dialog = makeDialog(parent, title);
    dialog->setObjectName(QStringLiteral("sentences"));
    QString all;
    for (const QString &sentence : sentences) {
        QLabel *label = plainLabel(sentence, dialog);
        label->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
        label->setProperty("tone", all.isEmpty() ? QVariant() : QVariant(QStringLiteral("muted")));
        dialog->layout()->addWidget(label);
        all += sentence + u'\n';
    }
    dialog->setAccessibleDescription(all.trimmed());
    auto *buttons = new QDialogButtonBox(QDialogButtonBox::Close, dialog);
    QPushButton *copy = buttons->addButton(tr("Copy"), QDialogButtonBox::ActionRole);
    dialog->layout()->addWidget(buttons);
    QObject::connect(copy, &QPushButton::clicked, dialog, [all] { QApplication::clipboard()->setText(all); });
    QObject::connect(buttons, &QDialogButtonBox::rejected, dialog, &QDialog::reject);
    buttons->button(QDialogButtonBox::Close)->setFocus();
    constexpr int width = 500;
    dialog->resize(width, dialog->layout()->heightForWidth(width));
    dialog->open();
}

void editSystemPrompt(QWidget *parent, const QString &prompt, const std::function<void(const QString &)> &accepted)
{
    QDialog *dialog = makeDialog(parent, tr("System prompt"));
    dialog->setObjectName(QStringLiteral("systemPrompt"));
    dialog->resize(560, 320);
    dialog->layout()->addWidget(
        plainLabel(tr("Sent before the messages of this chat, from the next answer on."), dialog));
    auto *edit = new QPlainTextEdit(prompt, dialog);
    edit->setAccessibleName(tr("System prompt"));
    edit->setTabChangesFocus(true);
    edit->setPlaceholderText(tr("For example: Answer in one short paragraph."));
    dialog->layout()->addWidget(edit);
    auto *buttons = new QDialogButtonBox(QDialogButtonBox::Cancel | QDialogButtonBox::Ok, dialog);
    dialog->layout()->addWidget(buttons);
    QObject::connect(buttons, &QDialogButtonBox::accepted, dialog, [dialog, edit, accepted] {
        accepted(edit->toPlainText());
        dialog->accept();
    });
    QObject::connect(buttons, &QDialogButtonBox::rejected, dialog, &QDialog::reject);
    dialog->open();
}

} // namespace ui
