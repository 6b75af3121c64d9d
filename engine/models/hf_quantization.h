// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/quantized_module.h"
#include "engine/models/hf_config.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

/// What a folder says about its quantised modules: `quantization_config` of config.json, else quantize_config.json or
/// quant_config.json.
///
/// Modules are named as the files name them, before anything is fused. Which ones are quantised is decided by the
/// tensors that they have; lists of those that are not are compared with that.
/// Every function \throws Error Refused naming file, key, found and wanted
class HfQuantization {
public:
    /// Empty when the folder says nothing, or that its experts are MXFP4, which the families read themselves.
    [[nodiscard]] static std::optional<HfQuantization> read(const HfConfig &config, const std::string &folder);

    /// How a module that has quantised tensors is stored.
    [[nodiscard]] QuantizedScheme schemeOf(std::string_view module) const;
    /// Whether the configuration says that the module is left in floats.
    [[nodiscard]] bool skips(std::string_view module) const;

private:
    struct Pattern;
    struct Rule;

    explicit HfQuantization(HfConfig config);

    void readMethod();
    void readGptq();
    void readGptqFormat();
    void readDynamic(const HfConfig &dynamic);
    void readAwq();
    void readFp8();
    void refuseTransforms() const;
    void readCompressed();
    void readCompressedGroup(const HfConfig &group, const std::string &format);
    void readBitsAndBytes();
    static void readActivations(const HfConfig &config, QuantizedScheme &scheme);
    void readBlock(const HfConfig &config, std::string_view key, QuantizedScheme &scheme);
    void addSkips(std::string_view key, bool anywhere);
    [[nodiscard]] static std::int64_t groupSizeOf(const HfConfig &config, std::string_view key);
    [[nodiscard]] static int bitsOf(const HfConfig &config, std::string_view key);

    HfConfig m_config;
    QuantizedScheme m_scheme;
    std::shared_ptr<std::vector<Rule>> m_rules; ///< overrides, the first that fits
    std::shared_ptr<std::vector<Pattern>> m_skips;
    bool m_needsRule = false; ///< compressed-tensors: no module without a group
};

} // namespace engine
