// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/models/model_files.h"
#include "kernels/ops.h"
#include "tests/support/shared_data.h"
#include "tests/support/tiny_golden.h"
#include "tests/support/tiny_model.h"

#include <QDir>
#include <QStringList>
#include <QTest>

#include <memory>
#include <string>
#include <utility>
#include <vector>

/// Whole models on the device simt.
namespace simt_models {

constexpr int blockTokens = 16;
constexpr int maxTokens = 128;
/// Under sanitizers a step takes ten to a hundred times as long, and the kernels have tests of their own there.
constexpr bool isSanitized = shared_data::sanitized;

/// Folders of the models that the goals name, or small ones beside the tests in their place.
inline QStringList modelFolders()
{
    QStringList folders{shared_data::data(QStringLiteral("tiny-llama"))};
    if (isSanitized)
        return folders;
    const QString shared = shared_data::path(QStringLiteral("tiny/models"));
    if (shared.isEmpty()) {
        for (const char *name : {"gemma", "exaone4", "olmoe-clip"})
            folders.push_back(shared_data::data(QStringLiteral("tiny-models/") + QLatin1String(name)));
        return folders;
    }
    QStringList names{QStringLiteral("qwen3"), QStringLiteral("gemma3"), QStringLiteral("mixtral")};
    if (shared_data::fullTier())
        names = QDir(shared).entryList(QDir::Dirs | QDir::NoDotAndDotDot, QDir::Name);
    // Its 27 routers go elsewhere after any rounding to halves, be it of keys on the CPU or of activations in the
    // reference (kernels/README.md, "CUDA").
    names.removeAll(QStringLiteral("deepseek2-lite27"));
    for (const QString &name : names)
        folders.push_back(shared + QLatin1Char('/') + name);
    return folders;
}

/// The GGUF file of a folder, or the folder itself.
inline std::string modelOf(const QString &folder)
{
    const QString file = tiny_model::ggufOf(folder);
    return (file.isEmpty() ? folder : file).toStdString();
}

inline void addModels()
{
    QTest::addColumn<QString>("folder");
    for (const QString &folder : modelFolders())
        QTest::newRow(qPrintable(folder.section(QLatin1Char('/'), -1))) << folder;
}

/// The same for the whole engine, which asks for a tokenizer: of the models that are always here few have a whole one.
inline void addServedModels()
{
    if (!shared_data::path(QStringLiteral("tiny/models")).isEmpty() || isSanitized)
        return addModels();
    QTest::addColumn<QString>("folder");
    for (const char *name : {"tiny-llama", "tiny-models/llama-tied-rope3", "tiny-deepseek3"})
        QTest::newRow(name) << shared_data::data(QLatin1String(name));
}

using Logits = std::vector<float>;

/// A model on one device, with the results of its folder.
struct Rig {
    explicit Rig(const QString &folder, std::unique_ptr<kernels::Ops> ops = kernels::makeOps({.device = "simt"}))
        : golden(tiny_model::readGolden(folder))
        , checkpoint(engine::openModelFiles(modelOf(folder)))
        , runner(tiny_model::makeRunner(*checkpoint, std::move(ops), kernels::DType::F16, maxTokens))
    {
        runner->resizeKv({16, blockTokens});
    }

    Logits logitsOf(const std::vector<int> &ids, int chunk = 0)
    {
        return tiny_model::allLogits(*runner, ids, chunk, size);
    }

    tiny_model::Golden golden;
    std::unique_ptr<engine::Checkpoint> checkpoint;
    std::unique_ptr<engine::ModelRunner> runner;
    int size = blockTokens; ///< of the blocks in place
};

} // namespace simt_models
