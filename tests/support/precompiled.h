// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

// What nearly every test includes; compiled once, as it takes most of the time of a small test.
#include <QtTest>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>
