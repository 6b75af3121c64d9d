// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/gguf_writer.h"
#include "engine/models/model_files.h"
#include "tests/support/shared_data.h"

#include <QTemporaryDir>

#include <string>
#include <vector>

/// The tiny llama with a window of `window` tokens in its layers, but for every `pattern`-th one (0: in all); a file
/// that lives as long as this.
class WindowedLlama {
public:
    WindowedLlama(int window, int pattern)
    {
        const auto source =
            engine::openModelFiles(shared_data::data(QStringLiteral("tiny-llama/llama-f16.gguf")).toStdString());
        engine::Metadata metadata;
        for (const auto &[key, value] : source->metadata().entries())
            metadata.add(key, value, std::string(source->metadata().typeName(key)));
        metadata.add("llama.attention.sliding_window", std::uint64_t(window), "uint32");
        metadata.add("llama.attention.sliding_window_pattern", std::uint64_t(pattern), "uint32");
        std::vector<engine::GgufTensorPlan> plans;
        for (const engine::TensorInfo &tensor : source->tensors())
            plans.push_back({tensor.name, tensor.shape});
        engine::GgufWriter writer(path().toStdString(), metadata, std::move(plans));
        for (const engine::TensorInfo &tensor : source->tensors()) {
            writer.begin(tensor.type);
            writer.append(source->bytes(tensor));
        }
        (void)writer.finish();
    }

    [[nodiscard]] QString path() const { return m_folder.filePath(QStringLiteral("windowed.gguf")); }

private:
    QTemporaryDir m_folder;
};
