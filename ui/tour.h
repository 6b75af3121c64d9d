// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/engine.h"

#include <QString>

#include <memory>

namespace ui {

class ServerControl;

/// Plays a scripted session and writes one PNG per view, light and dark, into `folder`.
///
/// Without a model name the first installed model is taken. Nothing of the user's is read or written: settings and
/// chats live in a folder of their own that is removed at the end. Returns the program's exit status: 0, 1 when a
/// picture cannot be written or an answer fails, 3 when the model does not load; a failure prints one line.
/// \pre a QApplication exists
/// With a `server`, which is on the same engine, it is started on a free port and shown too.
int runTour(std::unique_ptr<engine::Engine> engine, const QString &folder, const QString &model,
            ServerControl *server = nullptr);

} // namespace ui
