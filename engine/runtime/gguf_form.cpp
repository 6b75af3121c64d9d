// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/gguf_form.h"

#include "engine/core/printable.h"
#include "engine/io/gguf_writer.h"
#include "engine/runtime/gguf_form_limits.h"
#include "engine/runtime/gguf_form_parts.h"
#include "engine/runtime/gguf_types_form.h"
#include "engine/runtime/vocabulary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <numbers>
#include <unordered_map>

namespace engine {

namespace {

using gguf_form::Bytes;
using gguf_form::FormedTensor;
using kernels::DType;

// Architectures whose GGUF files rotate pairs (2i, 2i + 1). Source: llama.cpp, llama_model_rope_type.
constexpr std::array<std::string_view, 13> interleavedArchitectures = {
    "llama",   "mistral3",  "smollm3", "granite", "granitemoe", "deepseek2", "command-r",
    "cohere2", "internlm2", "chatglm", "glm4",    "baichuan",   "minicpm"};

/// "blk.3.ffn_up.7.weight" as "blk.3.ffn_up_exps.weight" and 7; expert -1 for other names.
struct ExpertName {
    std::string stacked;
    int expert = -1;
};

ExpertName expertName(const std::string &name)
{
    for (const char *part : {".ffn_gate.", ".ffn_up.", ".ffn_down."}) {
        const std::size_t at = name.find(part);
        if (at == std::string::npos)
            continue;
        const std::size_t number = at + std::strlen(part);
        const std::size_t end = name.find('.', number);
        const std::string digits = name.substr(number, end == std::string::npos ? 0 : end - number);
        if (digits.empty() || digits.size() > 6 || digits.find_first_not_of("0123456789") != std::string::npos)
            return {};
        return {name.substr(0, number - 1) + "_exps" + name.substr(end), std::stoi(digits)};
    }
    return {};
}

class GgufForm final : public Checkpoint {
public:
    explicit GgufForm(std::unique_ptr<Checkpoint> folder)
        : m_folder(std::move(folder))
        , m_warnings(m_folder->warnings())
    {
        const std::string *architecture = m_folder->metadata().text("general.architecture");
        if (architecture == nullptr)
            throw Error(ErrorCode::Refused, inQuotes(path()) + " names no architecture");
        m_architecture = *architecture;
        readPairing();
        readHeads();
        formTensors();
        addFactors();
        formMetadata();
        for (std::size_t i = 0; i < m_tensors.size(); ++i)
            m_infos.push_back(m_tensors[i].info);
        for (std::size_t i = 0; i < m_infos.size(); ++i)
            m_byName.emplace(m_infos[i].name, i);
        std::ranges::move(limitsOfOtherReaders(*this), std::back_inserter(m_warnings));
    }

    [[nodiscard]] const std::string &path() const override { return m_folder->path(); }
    [[nodiscard]] const Metadata &metadata() const override { return m_metadata; }
    [[nodiscard]] const std::vector<TensorInfo> &tensors() const override { return m_infos; }
    [[nodiscard]] std::uint64_t fileBytes() const override { return m_folder->fileBytes(); }
    [[nodiscard]] std::vector<std::string> warnings() const override { return m_warnings; }
    [[nodiscard]] std::string checkUnchanged() const override { return m_folder->checkUnchanged(); }

    [[nodiscard]] const TensorInfo *find(std::string_view name) const override
    {
        const auto found = m_byName.find(name);
        return found == m_byName.end() ? nullptr : &m_infos[found->second];
    }

    [[nodiscard]] std::span<const std::byte> bytes(const TensorInfo &tensor) const override
    {
        const FormedTensor &formed = m_tensors[m_byName.at(tensor.name)];
        if (!formed.make)
            return m_folder->bytes(*formed.sources.front());
        const std::lock_guard lock(m_madeMutex);
        const auto [made, isNew] = m_made.try_emplace(&formed);
        if (isNew)
            made->second = formed.make();
        CHECK(made->second.size() == tensor.bytes);
        return made->second;
    }

    void releasePages(const TensorInfo &tensor) const override
    {
        const FormedTensor &formed = m_tensors[m_byName.at(tensor.name)];
        for (const TensorInfo *source : formed.sources)
            m_folder->releasePages(*source);
        const std::lock_guard lock(m_madeMutex);
        m_made.erase(&formed);
    }

private:
    [[nodiscard]] std::string key(std::string_view name) const { return m_architecture + '.' + std::string(name); }
    [[nodiscard]] const Metadata &source() const { return m_folder->metadata(); }

    void readPairing()
    {
        const bool wanted = std::find(interleavedArchitectures.begin(), interleavedArchitectures.end(), m_architecture)
            != interleavedArchitectures.end();
        const bool stored = source().boolean(key("rope.interleaved")).value_or(wanted);
        m_interleaves = wanted && !stored;
        if (stored && !wanted)
            throw Error(ErrorCode::Refused,
                        inQuotes(path()) + " rotates pairs (2i, 2i + 1), which GGUF files of the architecture "
                            + inQuotes(m_architecture) + " do not");
    }

    void readHeads()
    {
        const auto heads = source().integer(key("attention.head_count")).value_or(1);
        const auto hidden = source().integer(key("embedding_length")).value_or(0);
        m_headRows = source().integer(key("attention.key_length")).value_or(hidden / std::max<std::int64_t>(heads, 1));
        m_rotary = std::min(source().integer(key("rope.dimension_count")).value_or(m_headRows), m_headRows);
        m_latentRank = source().integer(key("attention.kv_lora_rank")).value_or(0);
        m_latentKeys = source().integer(key("attention.key_length_mla")).value_or(0);
        m_latentValues = source().integer(key("attention.value_length_mla")).value_or(0);
        m_normOffset = static_cast<float>(source().number(key("norm_weight_offset")).value_or(0.0));
    }

    void formTensors()
    {
        std::map<std::string, std::map<int, const TensorInfo *>> experts;
        for (const TensorInfo &tensor : m_folder->tensors()) {
            if (ExpertName name = expertName(tensor.name); name.expert >= 0)
                experts[name.stacked][name.expert] = &tensor;
            else if (m_latentRank > 0 && tensor.name.ends_with(".attn_kv_b.weight"))
                std::ranges::move(
                    gguf_form::splitLatentHeads(*m_folder, tensor, m_latentKeys - m_rotary, m_latentValues),
                    std::back_inserter(m_tensors));
            else
                m_tensors.push_back(formedTensor(tensor));
        }
        for (const auto &[name, parts] : experts)
            m_tensors.push_back(stackedExperts(name, parts));
    }

    /// Which rows of a query or key projection rotate; none for other tensors.
    [[nodiscard]] gguf_form::HeadRows rotatingRows(const TensorInfo &tensor) const
    {
        const auto is = [&](const char *part) { return tensor.name.find(part) != std::string::npos; };
        if (m_latentRank == 0)
            return is(".attn_q.") || is(".attn_k.") ? gguf_form::HeadRows{m_headRows, 0, m_rotary}
                                                    : gguf_form::HeadRows{};
        if (is(".attn_kv_a_mqa."))
            return {m_latentRank + m_rotary, m_latentRank, m_rotary};
        return is(".attn_q.") || is(".attn_q_b.") ? gguf_form::HeadRows{m_latentKeys, m_latentKeys - m_rotary, m_rotary}
                                                  : gguf_form::HeadRows{};
    }

    FormedTensor formedTensor(const TensorInfo &tensor)
    {
        FormedTensor formed{tensor, {&tensor}, {}};
        const gguf_form::HeadRows head = rotatingRows(tensor);
        if (m_interleaves && head.count > 0 && tensor.shape.front() % head.count == 0) {
            formed.make = [this, &tensor, head] {
                return gguf_form::interleavedRows(m_folder->bytes(tensor), tensor.shape.front(), head);
            };
        } else if (m_normOffset != 0.0F && tensor.name.ends_with("norm.weight")) {
            gguf_form::setFloats(formed.info);
            formed.make = [this, &tensor] {
                std::vector<float> values = gguf_form::floatsOf(*m_folder, tensor);
                for (float &value : values)
                    value += m_normOffset;
                return gguf_form::bytesOf(values);
            };
        }
        return formed;
    }

    FormedTensor stackedExperts(const std::string &name, const std::map<int, const TensorInfo *> &parts)
    {
        FormedTensor formed{*parts.begin()->second, {}, {}};
        formed.info.name = name;
        int wanted = 0;
        for (const auto &[expert, tensor] : parts) {
            const bool fits =
                expert == wanted++ && tensor->type == formed.info.type && tensor->shape == parts.begin()->second->shape;
            if (!fits)
                throw Error(ErrorCode::Refused,
                            inQuotes(path()) + ": tensor " + inQuotes(tensor->name)
                                + " cannot stand in one tensor with the other experts of its layer, wanted all numbers"
                                  " from 0, of one type and shape");
            formed.sources.push_back(tensor);
        }
        formed.info.shape.insert(formed.info.shape.begin(), static_cast<std::int64_t>(parts.size()));
        formed.info.bytes *= parts.size();
        formed.make = [this, sources = formed.sources] {
            Bytes all;
            for (const TensorInfo *tensor : sources) {
                const std::span<const std::byte> bytes = m_folder->bytes(*tensor);
                all.insert(all.end(), bytes.begin(), bytes.end());
                m_folder->releasePages(*tensor);
            }
            return all;
        };
        return formed;
    }

    void addVector(const std::string &name, const std::vector<float> &values)
    {
        FormedTensor formed;
        formed.info.name = name;
        formed.info.shape = {static_cast<std::int64_t>(values.size())};
        gguf_form::setFloats(formed.info);
        formed.make = [values] { return gguf_form::bytesOf(values); };
        m_tensors.push_back(std::move(formed));
    }

    /// Divisors of the rotary frequencies are keys of ours, but tensors in GGUF.
    void addFactors()
    {
        const std::string *scaling = source().text(key("rope.scaling.type"));
        m_dropsScaling = scaling != nullptr && *scaling == "llama3";
        if (m_dropsScaling)
            addVector("rope_freqs.weight", llama3Factors());
        for (const auto &[list, tensor] : {std::pair{"rope.scaling.short_factors", "rope_factors_short.weight"},
                                           std::pair{"rope.scaling.long_factors", "rope_factors_long.weight"}}) {
            if (const auto factors = source().numbers(key(list)))
                addVector(tensor, std::vector<float>(factors->begin(), factors->end()));
        }
    }

    /// Source: Llama 3.1; the steps stand in ggml-org/llama.cpp's conversion.
    std::vector<float> llama3Factors() const
    {
        const auto number = [this](const char *name, double fallback) {
            return source().number(key(name)).value_or(fallback);
        };
        const double base = number("rope.freq_base", 10000.0);
        const double factor = number("rope.scaling.factor", 8.0);
        const double low = number("rope.scaling.low_freq_factor", 1.0);
        const double high = number("rope.scaling.high_freq_factor", 4.0);
        const double context = number("rope.scaling.original_context_length", 8192.0);
        std::vector<float> factors;
        for (std::int64_t i = 0; i < m_rotary; i += 2) {
            const double wave =
                2 * std::numbers::pi * std::pow(base, static_cast<double>(i) / static_cast<double>(m_rotary));
            const double smooth = (context / wave - low) / (high - low);
            const double divisor = wave < context / high ? 1.0
                : wave > context / low                   ? factor
                                                         : 1.0 / ((1.0 - smooth) / factor + smooth);
            factors.push_back(static_cast<float>(divisor));
        }
        return factors;
    }

    void formMetadata()
    {
        for (const auto &[name, value] : source().entries()) {
            const bool dropped = name == key("rope.interleaved") || name == key("norm_weight_offset")
                || name.ends_with(".short_factors") || name.ends_with(".long_factors")
                || (m_dropsScaling && name.starts_with(key("rope.scaling.")));
            if (!dropped)
                m_metadata.add(name, value, usualGgufType(value)); // the folder declares no types
        }
        addLongRopeTemperature();
        addTokenizerKeys(path(), m_metadata, m_warnings);
        dropUnsuitableName();
    }

    /// Programs that read only GGUF do not work it out. Source: transformers, modeling_rope_utils.
    void addLongRopeTemperature()
    {
        const std::string *type = source().text(key("rope.scaling.type"));
        const double trained = source().number(key("rope.scaling.original_context_length")).value_or(1.0);
        const double growth = source().number(key("context_length")).value_or(0.0) / trained;
        if (type == nullptr || *type != "longrope" || m_metadata.find(key("rope.scaling.attn_factor")) != nullptr)
            return;
        const double factor =
            growth > 1.0 && trained > 1.0 ? std::sqrt(1.0 + std::log(growth) / std::log(trained)) : 1.0;
        m_metadata.add(key("rope.scaling.attn_factor"), factor, "float32");
    }

    /// llama.cpp takes a model of such a name for one of Phi-3's vocabulary, and fails where these tokens are missing.
    void dropUnsuitableName()
    {
        const std::string *name = m_metadata.text("general.name");
        const std::vector<std::string> *tokens = m_metadata.texts("tokenizer.ggml.tokens");
        if (name == nullptr || tokens == nullptr || !isNamedPhi3(*name))
            return;
        for (const char *token : {"</s>", "<unk>", "<s>", "<|endoftext|>"}) {
            if (std::ranges::find(*tokens, token) == tokens->end())
                m_metadata.set("general.name", std::string("model"));
        }
    }

    std::unique_ptr<Checkpoint> m_folder;
    std::string m_architecture;
    bool m_interleaves = false;
    bool m_dropsScaling = false;
    std::int64_t m_headRows = 0;
    std::int64_t m_rotary = 0;
    std::int64_t m_latentRank = 0; ///< 0: attention is not latent
    std::int64_t m_latentKeys = 0; ///< elements of a head's key, those that rotate last
    std::int64_t m_latentValues = 0;
    float m_normOffset = 0.0F;
    Metadata m_metadata;
    std::vector<FormedTensor> m_tensors;
    std::vector<TensorInfo> m_infos;                            ///< of m_tensors
    std::unordered_map<std::string_view, std::size_t> m_byName; ///< views into m_infos
    std::vector<std::string> m_warnings;
    mutable std::mutex m_madeMutex;
    mutable std::unordered_map<const FormedTensor *, Bytes> m_made; ///< until releasePages
};

} // namespace

std::unique_ptr<Checkpoint> inGgufForm(std::unique_ptr<Checkpoint> folder)
{
    return std::make_unique<GgufForm>(withGgufTypes(std::move(folder)));
}

} // namespace engine
