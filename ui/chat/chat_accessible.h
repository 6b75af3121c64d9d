// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace ui {

/// Makes conversations readable for assistive tools: a list of messages, each named "who: text", with its buttons as
/// children. Only the first call does something.
void installChatAccessibility();

} // namespace ui
