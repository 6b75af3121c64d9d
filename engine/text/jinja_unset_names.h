// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/jinja_ast.h"

namespace engine::jinja {

/// Fills in the `unset` lists of a parsed template: the names that a frame (the template, the pass of a loop, a macro,
/// a block) sets before it reads them, and that no frame around it speaks of. Jinja decides at compile time that such
/// a name belongs to the frame, so that it is undefined until it is set, also for the loops and macros inside, and
/// whatever the context holds under that name. A name first met under an `if` still comes from the context.
/// Source: the scoping rules of Jinja 3.1, jinja2/idtracking.py.
void findUnsetNames(Template &tree);

} // namespace engine::jinja
