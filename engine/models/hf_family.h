// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/checkpoint.h"
#include "engine/models/hf_config.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

/// How the bytes of a Hugging Face tensor become ours. Fused experts become one tensor per expert, named as old GGUF
/// files do ("blk.0.ffn_gate.3.weight").
enum class HfForm {
    Plain,             ///< the same values in the same order
    Vector,            ///< [1, n] or [n], taken as [n]
    ExpertsGateUp,     ///< [experts, 2 * inner, hidden]: gate rows, then up rows
    Experts,           ///< [experts, rows, columns]
    TransposedGateUp,  ///< [experts, hidden, 2 * inner], gate and up columns alternating (gpt-oss)
    TransposedExperts, ///< [experts, columns, rows] (gpt-oss)
    GateUpBias,        ///< [experts, 2 * inner], gate and up alternating (gpt-oss): two tensors [experts, inner]
    Mxfp4GateUp,       ///< [experts, 2 * inner, blocks, 16], gate and up rows alternating, beside their scales
    Mxfp4Experts,      ///< [experts, rows, blocks, 16], beside their scales
    Mxfp4Scales,       ///< read with the blocks
};

/// One row of a family's table of names. "{}" stands for a number: of a layer, then of an expert.
///
/// A name without ".weight" or ".bias" at its end is a module, and the ending of a tensor is kept; one that a tensor
/// has whole ("model.layers.{}.self_attn.sinks") becomes `gguf` as it is.
struct HfName {
    std::string_view hf;
    std::string_view gguf; ///< of gate and up together: the gate's, whose "ffn_gate" becomes "ffn_up"
    HfForm form = HfForm::Plain;
};

/// Writes the keys that a configuration is translated to, below the architecture's prefix.
class HfKeys {
public:
    HfKeys(Metadata &metadata, std::string architecture)
        : m_metadata(metadata)
        , m_architecture(std::move(architecture))
    {
    }
    [[nodiscard]] bool has(std::string_view key) const { return m_metadata.find(full(key)) != nullptr; }
    /// Replaces an earlier value.
    void set(std::string_view key, MetadataValue value) { m_metadata.set(full(key), std::move(value)); }
    [[nodiscard]] const Metadata &metadata() const { return m_metadata; }
    [[nodiscard]] std::string full(std::string_view key) const { return m_architecture + "." + std::string(key); }

private:
    Metadata &m_metadata;
    std::string m_architecture;
};

/// What the library's class of one model type fills in where config.json has no such key.
struct HfTypeDefaults {
    std::string_view modelType;
    std::string_view defaults; ///< JSON object
};

/// What a family of models needs to be read from a Hugging Face folder; one without `modelTypes` exists as GGUF only.
struct HfFamily {
    std::vector<std::string_view> modelTypes;    ///< of config.json's model_type
    std::vector<std::string_view> architectures; ///< of its architectures, where model_type is absent
    std::span<const HfName> names;               ///< looked at before the common ones of hf_names.h
    std::vector<std::string_view> activations;   ///< of hidden_act; empty: all of namedActivations()
    std::string_view defaults; ///< JSON object: keys that the library's class fills in where config.json has none
    std::vector<HfTypeDefaults> typeDefaults; ///< the same for one of `modelTypes`
    /// Adds to the common keys of hf_translate.h, or replaces them; may be null.
    void (*translate)(const HfConfig &config, HfKeys &keys) = nullptr;
};

} // namespace engine
