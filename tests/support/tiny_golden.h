// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QJsonArray>
#include <QString>

#include <vector>

namespace tiny_model {

/// Results beside a model file, by transformers, or those beside the tests by llama.cpp, in float32: the logits of
/// prompts' last positions and greedy continuations.
struct Golden {
    std::vector<std::vector<int>> prompts;
    std::vector<float> logits; ///< [prompts, vocab]
    QJsonArray greedy;         ///< of each prompt {"tokens", "margin"}
    double limit =
        1e-3; ///< of the reference backend; larger where the goldens' own GELU goes through a table of halves

    [[nodiscard]] std::size_t vocab() const { return logits.size() / prompts.size(); }
};

[[nodiscard]] Golden readGolden(const QString &folder);
[[nodiscard]] std::vector<int> idsOf(const QJsonValue &value);
/// The folder's GGUF file with F16 weights, or empty.
[[nodiscard]] QString ggufOf(const QString &folder);

} // namespace tiny_model
