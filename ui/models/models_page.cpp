// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/models_page.h"

#include "ui/engine_client.h"
#include "ui/models/model_card.h"
#include "ui/models/model_list.h"
#include "ui/settings.h"
#include "ui/widgets/page_title.h"

#include <QBoxLayout>
#include <QFileDialog>
#include <QFileInfo>
#include <QLabel>
#include <QListView>
#include <QPushButton>

namespace ui {

ModelsPage::ModelsPage(Theme &theme, EngineClient &client, Settings &settings, QWidget *parent)
    : QWidget(parent)
    , m_theme(theme)
    , m_client(client)
    , m_settings(settings)
    , m_model(new ModelList(this))
    , m_view(new QListView)
    , m_fault(new QLabel)
    , m_open(new QPushButton(tr("Open")))
    , m_browse(new QPushButton(tr("Open file…")))
    , m_browseFolder(new QPushButton(tr("Open folder…")))
    , m_forget(new QPushButton(tr("Forget")))
    , m_card(new ModelCard(theme, client))
{
    createLayout();
    connect(m_view, &QListView::activated, this, &ModelsPage::openCurrent);
    connect(m_view->selectionModel(), &QItemSelectionModel::currentChanged, this, &ModelsPage::updateButtons);
    connect(m_open, &QPushButton::clicked, this, &ModelsPage::openCurrent);
    connect(m_browse, &QPushButton::clicked, this, &ModelsPage::browse);
    connect(m_browseFolder, &QPushButton::clicked, this, &ModelsPage::browseFolder);
    connect(m_forget, &QPushButton::clicked, this,
            [this] { m_settings.removeRecentModel(m_view->currentIndex().data(ModelList::PathRole).toString()); });
    connect(&settings, &Settings::recentModelsChanged, this, [this] {
        if (isVisible())
            refresh();
    });
    connect(&client, &EngineClient::modelLoaded, this, [this](const engine::ModelInfo &info) {
        m_fault->clear();
        m_model->setLoadedPath(QString::fromStdString(info.path));
        updateButtons();
    });
    connect(&client, &EngineClient::modelUnloaded, this, [this] { m_model->setLoadedPath({}); });
    connect(&client, &EngineClient::loadStarted, this, &ModelsPage::updateButtons);
    connect(&client, &EngineClient::loadFailed, this, &ModelsPage::showFailure);
    connect(&theme, &Theme::changed, m_view->viewport(), qOverload<>(&QWidget::update));
    updateButtons();
}

void ModelsPage::createLayout()
{
    m_view->setModel(m_model);
    m_view->setItemDelegate(new ModelDelegate(m_theme, m_view));
    m_view->setFrameShape(QFrame::NoFrame);
    m_view->setMouseTracking(true);
    m_view->setAccessibleName(tr("Models"));
    m_view->setVerticalScrollMode(QAbstractItemView::ScrollPerPixel);
    m_open->setProperty("primary", true);
    m_forget->setToolTip(tr("Take it off the recent list; the file stays"));
    m_fault->setTextFormat(Qt::PlainText);
    m_fault->setTextInteractionFlags(Qt::TextSelectableByMouse);
    m_fault->setWordWrap(true);
    m_fault->setProperty("tone", QStringLiteral("bad"));

    auto *buttons = new QHBoxLayout;
    buttons->setContentsMargins(8, 6, 8, 0); // in line with the card's title
    for (QPushButton *button : {m_open, m_browse, m_browseFolder, m_forget})
        buttons->addWidget(button);
    buttons->addStretch();
    auto *listCard = new Card(m_theme, tr("Models on this machine"));
    listCard->setFocusPolicy(Qt::NoFocus);
    auto *inside = new QVBoxLayout(listCard);
    inside->setContentsMargins(6, Card::headerHeight, 6, 14);
    inside->addWidget(m_view, 1);
    inside->addWidget(m_fault);
    inside->addLayout(buttons);
    auto *row = new QHBoxLayout;
    row->setSpacing(12);
    row->addWidget(listCard, 5);
    row->addWidget(m_card, 6);
    auto *column = new QVBoxLayout(this);
    column->setContentsMargins(16, 0, 16, 14);
    column->setSpacing(0);
    column->addWidget(new PageTitle(
        m_theme, tr("Models"),
        tr("open a .gguf file or a model folder: from here, with Ctrl+O, or by dropping it on the window")));
    column->addLayout(row, 1);
    setTabOrder(m_view, m_open);
    setTabOrder(m_open, m_browse);
    setTabOrder(m_browse, m_browseFolder);
    setTabOrder(m_browseFolder, m_forget);
}

void ModelsPage::showEvent(QShowEvent *event)
{
    QWidget::showEvent(event);
    refresh();
}

void ModelsPage::refresh()
{
    ModelList::readLater(paths::models(), m_settings.recentModels())
        .then(this, [this](const std::vector<ModelRow> &rows) {
            const QString current = m_view->currentIndex().data(ModelList::PathRole).toString();
            m_model->setRows(rows);
            for (int i = 0; i < m_model->rowCount(); ++i) {
                const QModelIndex index = m_model->index(i);
                const bool first = current.isEmpty() && !index.data(ModelList::HeaderRole).toBool();
                if (first || (!current.isEmpty() && index.data(ModelList::PathRole).toString() == current)) {
                    m_view->setCurrentIndex(index);
                    break;
                }
            }
            updateButtons();
        });
}

void ModelsPage::updateButtons()
{
    const QModelIndex current = m_view->currentIndex();
    const QString path = current.data(ModelList::PathRole).toString();
    m_open->setEnabled(!path.isEmpty() && current.data(ModelList::ProblemRole).toString().isEmpty());
    m_forget->setEnabled(m_settings.recentModels().contains(path));
}

void ModelsPage::openCurrent()
{
    const QString path = m_view->currentIndex().data(ModelList::PathRole).toString();
    if (path.isEmpty() || !m_open->isEnabled())
        return;
    m_fault->clear();
    emit openRequested(path);
}

QString ModelsPage::startFolder() const
{
    const QStringList recent = m_settings.recentModels();
    return recent.isEmpty() ? paths::models() : QFileInfo(recent[0]).absolutePath();
}

void ModelsPage::browse()
{
    const QString path =
        QFileDialog::getOpenFileName(this, tr("Open a model"), startFolder(),
                                     tr("Models (*.gguf *.safetensors config.json *.index.json);;All files (*)"));
    if (!path.isEmpty())
        emit openRequested(path);
}

void ModelsPage::browseFolder()
{
    const QString path = QFileDialog::getExistingDirectory(this, tr("Open a model folder"), startFolder());
    if (!path.isEmpty())
        emit openRequested(path);
}

void ModelsPage::showFailure(const QString &, const QString &message, bool cancelled)
{
    m_fault->setText(cancelled ? QString() : message);
    updateButtons();
}

} // namespace ui
