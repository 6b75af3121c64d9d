// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/serve/server.h"
#include "engine/api/error.h"
#include "engine/api/text.h"

#include <filesystem>

namespace serve {
namespace {

std::string nameOf(const engine::ModelInfo &info)
{
    std::filesystem::path path(info.path);
    if (!path.has_filename())
        path = path.parent_path();
    return path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
}

} // namespace

ServedModel openServedModel(const engine::ModelInfo &info, const std::string &name, std::string *lack)
{
    ServedModel model;
    model.info = info;
    model.name = name.empty() ? nameOf(info) : name;
    model.text = engine::openTextModel(info.path);
    try {
        model.templates = engine::openTemplates(info.path);
    } catch (const engine::Error &error) {
        if (lack)
            *lack = std::string(error.what()) + "; chats cannot be served";
    }
    return model;
}

} // namespace serve
