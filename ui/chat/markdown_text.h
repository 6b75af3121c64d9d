// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/chat/block_splitter.h"

#include <QString>
#include <QStringView>

namespace ui {

/// The character that an HTML entity names ("&amp;", "&#8212;"), or the entity itself when it is not known.
[[nodiscard]] QString decodeEntity(QStringView entity);

/// What can be shown of a block that still grows: unfinished emphasis and code spans are ended, and trailing
/// characters that may still become markup are left out.
[[nodiscard]] QString settledSource(QStringView source, BlockKind kind);

} // namespace ui
