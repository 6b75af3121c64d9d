// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/inspect/enlarged_view.h"

#include "ui/inspect/live_card.h"

#include <QBoxLayout>
#include <QFileDialog>
#include <QLabel>
#include <QPushButton>
#include <QShortcut>
#include <QStandardPaths>

namespace ui {

EnlargedView::EnlargedView(Theme &, QWidget *parent)
    : QWidget(parent)
    , m_fault(new QLabel(this))
{
    auto *back = new QPushButton(tr("Back"), this);
    back->setToolTip(tr("Back to the column (Esc)"));
    auto *save = new QPushButton(tr("Export…"), this);
    m_fault->setProperty("tone", QStringLiteral("bad"));
    auto *bar = new QHBoxLayout;
    bar->addWidget(back);
    bar->addWidget(m_fault, 1);
    bar->addStretch();
    bar->addWidget(save);
    m_layout = new QVBoxLayout(this);
    m_layout->setContentsMargins(16, 14, 16, 14);
    m_layout->setSpacing(12);
    m_layout->addLayout(bar);
    auto *escape = new QShortcut(Qt::Key_Escape, this);
    escape->setContext(Qt::WidgetWithChildrenShortcut);
    connect(escape, &QShortcut::activated, this, &EnlargedView::closed);
    connect(back, &QPushButton::clicked, this, &EnlargedView::closed);
    connect(save, &QPushButton::clicked, this, &EnlargedView::exportCard);
}

void EnlargedView::setCard(LiveCard *card)
{
    m_fault->clear();
    if (m_card)
        m_layout->removeWidget(m_card);
    m_card = card;
    if (!card)
        return;
    card->setMinimumHeight(200);
    card->setMaximumHeight(QWIDGETSIZE_MAX);
    m_layout->addWidget(card, 1);
    card->setExpanded(true);
    card->show();
    card->setFocus();
}

void EnlargedView::exportCard()
{
    if (!m_card)
        return;
    const QString folder = QStandardPaths::writableLocation(QStandardPaths::PicturesLocation);
    const QString path =
        QFileDialog::getSaveFileName(this, tr("Export %1").arg(m_card->title()),
                                     folder + u'/' + m_card->key() + QStringLiteral(".png"), m_card->exportFilters());
    QString why;
    m_fault->setText(path.isEmpty() || m_card->exportTo(path, &why) ? QString() : why);
}

} // namespace ui
