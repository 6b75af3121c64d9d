// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/server_control.h"

#include <QObject>
#include <QString>

namespace ui {

class EngineClient;

/// The only object of the window that knows the server: calls become commands, its states become signals, and the model
/// that the engine has loaded becomes the one that is served. Thread: UI.
class ServerLink : public QObject {
    Q_OBJECT
public:
    /// \pre `control` outlives this
    ServerLink(ServerControl &control, EngineClient &client, QObject *parent = nullptr);
    ~ServerLink() override;

    void start(const ServerWish &wish) { m_control.start(wish); }
    void stop() { m_control.stop(); }
    [[nodiscard]] const ServerState &state() const { return m_state; }
    /// Whether it runs, or does what is needed for that.
    [[nodiscard]] bool isOn() const;
    /// The state as one sentence.
    [[nodiscard]] QString sentence() const;
    /// What clients take as their base URL; empty unless it runs.
    [[nodiscard]] QString baseUrl() const;

signals:
    void stateChanged();

private:
    ServerControl &m_control;
    ServerState m_state;
};

} // namespace ui
