// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>

namespace ui {

/// Tells when the machine is about to sleep, as far as logind says so. Thread: UI.
class SuspendWatch : public QObject {
    Q_OBJECT
public:
    explicit SuspendWatch(QObject *parent = nullptr);

signals:
    void aboutToSleep();

public slots:
    /// logind's signal. Public because D-Bus delivers to a slot by name.
    void prepareForSleep(bool sleeping);
};

} // namespace ui
