// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QCoreApplication>

namespace ui {

/// What QObject::tr is to members, for functions that are none.
inline QString tr(const char *text)
{
    return QCoreApplication::translate("ui", text);
}

} // namespace ui
