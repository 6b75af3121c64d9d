// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/checkpoint.h"
#include "engine/models/hf_config.h"
#include "engine/models/model_registry.h"

#include <memory>
#include <string>

namespace engine {

/// The text model's configuration of a folder: config.json, with what the family's class fills in.
struct HfModelConfig {
    HfConfig config;
    const ModelFamily *family = nullptr; ///< null: model_type is not known
    std::string modelType;               ///< as the file spells it, or the name of its class
};

/// Reads config.json (`path`). \throws Error Refused or IoError; an unknown model_type is no error here
[[nodiscard]] HfModelConfig readHfModelConfig(const std::string &path);
/// The same of a file that is read already.
[[nodiscard]] HfModelConfig modelConfigOf(const HfConfig &whole);

/// The metadata that a configuration is translated to, with generation_config.json where it stands beside it.
/// \throws Error Refused, also for an unknown model_type, naming it and the known ones
[[nodiscard]] Metadata translateHfConfig(const HfModelConfig &model);

/// Opens a folder. \throws Error Refused or IoError
[[nodiscard]] std::unique_ptr<Checkpoint> openHfCheckpoint(const std::string &folder);

} // namespace engine
