// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/model_card.h"

#include "ui/engine_client.h"
#include "ui/format.h"
#include "ui/widgets/paint.h"

#include <QPainter>

#include <algorithm>

namespace ui {

namespace {

QString millions(qint64 parameters)
{
    if (parameters >= 1'000'000'000)
        return format::number(double(parameters) / 1e9) + QStringLiteral(" B");
    return format::number(double(parameters) / 1e6) + QStringLiteral(" M");
}

} // namespace

ModelCard::ModelCard(Theme &theme, EngineClient &client, QWidget *parent)
    : Card(theme, tr("Loaded model"), parent)
    , m_client(client)
{
    setFocusPolicy(Qt::NoFocus);
    connect(&client, &EngineClient::modelLoaded, this, &ModelCard::refresh);
    connect(&client, &EngineClient::modelUnloaded, this, &ModelCard::refresh);
    connect(&client, &EngineClient::parametersApplied, this, &ModelCard::refresh);
    refresh();
}

void ModelCard::refresh()
{
    const auto &model = m_client.model();
    setTitle(model ? format::modelName(QString::fromStdString(model->path)) : tr("Loaded model"));
    setSummary(model ? QString::fromStdString(model->architecture) : tr("none"));
    scheduleUpdate();
}

void ModelCard::paintMemory(QPainter &painter, const QRectF &rect) const
{
    const Tokens &c = theme().tokens();
    const engine::EngineTotals totals = m_client.totals();
    const auto &model = m_client.model();
    const std::pair<QString, std::size_t> parts[] = {
        {tr("weights"), model->weightBytes},
        {tr("KV pool, up to"), totals.kvBytes},
        {tr("workspace"), std::max(totals.workspaceBytes, model->workspaceBytes)}};
    const int series[] = {5, 0, 1};
    double sum = 1;
    for (const auto &[name, size] : parts)
        sum += double(size);
    paint::text(painter, {rect.x(), rect.y(), rect.width(), 18}, tr("memory"), theme().ui(11.5), c.muted);
    double x = rect.x();
    double labelX = rect.x();
    for (int i = 0; i < 3; ++i) {
        const double width = rect.width() * double(parts[i].second) / sum;
        paint::bar(painter, {x, rect.y() + 22, std::max(2.0, width - 1), 11}, Theme::series(series[i]), 2);
        x += width;
        const QString label = QStringLiteral("%1 %2").arg(parts[i].first, format::bytes(parts[i].second));
        paint::bar(painter, {labelX, rect.y() + 44, 9, 9}, Theme::series(series[i]), 2);
        const double labelWidth = paint::advance(theme().ui(11.5), label) + 2;
        paint::text(painter, {labelX + 15, rect.y() + 39, labelWidth, 18}, label, theme().ui(11.5), c.muted);
        labelX += labelWidth + 36;
    }
}

void ModelCard::paintContent(QPainter &painter, const QRectF &rect)
{
    const Tokens &c = theme().tokens();
    const auto &model = m_client.model();
    if (!model) {
        paint::empty(painter, theme(), rect, tr("No model is loaded"),
                     tr("Choose one at the left, press Ctrl+O, or drop a .gguf file or a model folder on the window"));
        return;
    }
    const engine::EngineConfig &e = model->effective;
    paint::figure(painter, theme(), {rect.x(), rect.y() + 14}, tr("parameters"), millions(model->parameters), {},
                  c.text);
    paint::figure(painter, theme(), {rect.x() + 150, rect.y() + 14}, tr("layers"), format::count(model->layers), {},
                  c.text);
    paint::figure(painter, theme(), {rect.x() + 270, rect.y() + 14}, tr("context"), format::count(e.maxModelLen),
                  tr("tokens"), c.text);
    paintMemory(painter, {rect.x(), rect.y() + 64, rect.width(), 60});
    const std::pair<QString, QString> facts[] = {
        {tr("file"), QString::fromStdString(model->path)},
        {tr("name in the file"), model->name.empty() ? tr("none") : QString::fromStdString(model->name)},
        {tr("size"), format::bytes(model->fileBytes)},
        {tr("vocabulary"), format::counted(model->vocabSize, tr("token"), tr("tokens"))},
        {tr("trained context"), format::counted(model->contextLength, tr("token"), tr("tokens"))},
        {tr("chat template"), model->chatTemplate.empty() ? tr("none: chats use plain text") : tr("from the file")},
        {tr("runs on"),
         tr("%1 · %2 · %3")
             .arg(QString::fromStdString(model->backend), QString::fromStdString(model->isa),
                  format::counted(e.threads, tr("thread"), tr("threads")))},
        {tr("KV pool"),
         tr("%1 blocks of %2 tokens · %3")
             .arg(format::count(e.kv.numBlocks), format::count(e.kv.blockTokens), format::bytes(e.kv.budgetBytes))},
        {tr("batch"),
         tr("%1 sequences · %2 tokens a step")
             .arg(format::count(e.limits.maxNumSeqs), format::count(e.limits.maxNumBatchedTokens))}};
    double y = rect.y() + 138;
    for (const auto &[name, value] : facts) {
        painter.fillRect(QRectF(rect.x(), y - 5, rect.width(), 1), c.line);
        paint::text(painter, {rect.x(), y, 130, 22}, name, theme().ui(12.5), c.muted);
        paint::text(painter, {rect.x() + 130, y, rect.width() - 130, 22}, value, theme().ui(12.5), c.text);
        y += 32;
    }
    for (const std::string &warning : model->warnings) {
        paint::text(painter, {rect.x(), y, rect.width(), 18}, QString::fromStdString(warning), theme().ui(11.5),
                    c.warnText);
        y += 20;
    }
}

} // namespace ui
