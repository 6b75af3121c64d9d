// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QByteArray>
#include <QString>

/// Reference data outside the repository, used when it is there.
namespace shared_data {

/// The folder of reference data (LATHE_SHARED_DIR, else beside the checkout), or empty.
[[nodiscard]] QString dir();
/// dir()/relative when it exists, else empty; tests then skip, naming the file.
[[nodiscard]] QString path(const QString &relative);
/// A file's bytes; `.xz` files are decompressed. Empty when it cannot be read.
[[nodiscard]] QByteArray read(const QString &path);
/// The SmolLM2 demo model: LATHE_DEMO_MODEL, else $XDG_DATA_HOME/lathe/models/SmolLM2-135M-Instruct.Q4_1.gguf; empty
/// when absent.
[[nodiscard]] QString demoModel();
/// A file of tests/data.
[[nodiscard]] QString data(const QString &name);
/// True in the full tier (LATHE_TEST_TIER=full): tests then run the repetitions that the issues name.
[[nodiscard]] bool fullTier();

/// ASan or TSan, under which everything takes three to a hundred times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
/// True where a test shall run a part of its cases only: the quick tier under a sanitizer. The dev build runs them all.
[[nodiscard]] inline bool fewCases()
{
    return sanitized && !fullTier();
}

} // namespace shared_data
