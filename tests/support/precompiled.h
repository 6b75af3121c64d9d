// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

// What nearly every test includes; compiled once, as it takes most of the time of a small test.
#include <QString>
#include <QTest>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>
