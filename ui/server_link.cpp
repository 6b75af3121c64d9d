// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/server_link.h"

#include "ui/engine_client.h"
#include "ui/format.h"

namespace ui {

ServerLink::ServerLink(ServerControl &control, EngineClient &client, QObject *parent)
    : QObject(parent)
    , m_control(control)
{
    connect(&client, &EngineClient::modelLoaded, this,
            [this](const engine::ModelInfo &model) { m_control.setModel(model); });
    connect(&client, &EngineClient::modelUnloaded, this, [this] { m_control.setModel(std::nullopt); });
    if (client.model())
        m_control.setModel(client.model());
    m_control.setListener([this](const ServerState &state) {
        QMetaObject::invokeMethod(
            this,
            [this, state] {
                m_state = state;
                if (state.phase == ServerState::Phase::Failed)
                    qInfo("server: %s", state.problem.c_str());
                emit stateChanged();
            },
            Qt::QueuedConnection);
    });
}

ServerLink::~ServerLink()
{
    m_control.setListener({});
}

bool ServerLink::isOn() const
{
    return m_state.phase != ServerState::Phase::Stopped && m_state.phase != ServerState::Phase::Failed;
}

QString ServerLink::sentence() const
{
    switch (m_state.phase) {
    case ServerState::Phase::Stopped:
        return tr("The server is stopped.");
    case ServerState::Phase::NoModel:
        return tr("It starts as soon as a model is loaded.");
    case ServerState::Phase::Starting:
        return tr("Starting…");
    case ServerState::Phase::Running:
        return m_state.problem.empty() ? tr("Running with %1.").arg(QString::fromStdString(m_state.model))
                                       : format::sentence(QString::fromStdString(m_state.problem));
    case ServerState::Phase::Stopping:
        return tr("Stopping…");
    case ServerState::Phase::Failed:
        return format::sentence(QString::fromStdString(m_state.problem));
    }
    return {};
}

QString ServerLink::baseUrl() const
{
    return m_state.phase == ServerState::Phase::Running ? QString::fromStdString(m_state.url) + QStringLiteral("/v1")
                                                        : QString();
}

} // namespace ui
