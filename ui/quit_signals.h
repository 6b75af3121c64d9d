// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>

class QSocketNotifier;

namespace ui {

/// SIGINT, SIGTERM and SIGHUP as a Qt signal, so that a killed session is saved like a closed window. One at a time.
class QuitSignals : public QObject {
    Q_OBJECT
public:
    explicit QuitSignals(QObject *parent = nullptr);
    ~QuitSignals() override;

signals:
    void received();

private:
    QSocketNotifier *m_notifier = nullptr;
};

} // namespace ui
