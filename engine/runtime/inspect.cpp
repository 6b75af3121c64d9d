// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/inspect.h"

#include "engine/core/json.h"
#include "engine/core/printable.h"
#include "engine/io/checkpoint.h"
#include "engine/runtime/inspect_safetensors.h"

#include <algorithm>
#include <type_traits>

namespace engine {

namespace {

/// Gathers what a checkpoint says about itself. A key of the wrong type is a warning here: it is the loader that
/// refuses such a model, and the reader of a description wants to see the rest.
class Inspector {
public:
    explicit Inspector(const Checkpoint &checkpoint)
        : m_checkpoint(checkpoint)
        , m_metadata(checkpoint.metadata())
    {
    }

    ModelDescription describe()
    {
        m_result.format = "gguf";
        m_result.fileBytes = m_checkpoint.fileBytes();
        m_result.warnings = m_checkpoint.warnings();
        m_result.architecture = textOf("general.architecture");
        m_result.name = textOf("general.name");
        describeTensors();
        describeSizes();
        describeTokenizer();
        return std::move(m_result);
    }

private:
    template<typename Read> void tolerating(const Read &read)
    {
        try {
            read();
        } catch (const Error &error) {
            m_result.warnings.emplace_back(error.what());
        }
    }

    std::string textOf(std::string_view key)
    {
        std::string result;
        tolerating([&] {
            if (const std::string *text = m_metadata.text(key))
                result = *text;
        });
        if (!isUtf8(result))
            m_result.warnings.push_back("key " + inQuotes(key)
                                        + " is not UTF-8 text, ill-formed bytes are shown as U+FFFD");
        return repairUtf8(result);
    }

    /// 0 when the key is absent or of no use.
    std::int64_t countOf(const std::string &key)
    {
        std::int64_t result = 0;
        tolerating([&] { result = m_metadata.integer(key).value_or(0); });
        if (result < 0)
            m_result.warnings.push_back("key " + inQuotes(key) + " is " + std::to_string(result) + ", wanted a count");
        return std::max<std::int64_t>(result, 0);
    }

    void describeTensors()
    {
        for (const TensorInfo &tensor : m_checkpoint.tensors()) {
            std::int64_t elements = 1;
            for (const std::int64_t size : tensor.shape)
                elements *= size; // checked when the file was read
            m_result.parameters += elements;
            if (++m_result.tensorTypes[tensor.typeName] == 1 && !tensor.computable) {
                m_result.warnings.push_back("tensors of the type " + tensor.typeName + ", such as "
                                            + inQuotes(tensor.name)
                                            + ", cannot be computed: the model cannot be loaded");
            }
        }
        if (m_checkpoint.tensors().empty())
            m_result.warnings.emplace_back("the file has no tensors");
    }

    void describeSizes()
    {
        if (m_result.architecture.empty()) {
            m_result.warnings.emplace_back("key \"general.architecture\" says nothing: the model cannot be loaded");
            return;
        }
        const std::string prefix = *m_metadata.text("general.architecture") + '.';
        m_result.contextLength = countOf(prefix + "context_length");
        m_result.layers = countOf(prefix + "block_count");
        m_result.vocabSize = countOf(prefix + "vocab_size");
        if (m_result.vocabSize == 0)
            m_result.vocabSize = tokenCount();
        if (m_result.vocabSize == 0)
            m_result.vocabSize = embeddingRows();
    }

    std::int64_t tokenCount()
    {
        std::int64_t count = 0;
        tolerating([&] {
            if (const auto *tokens = m_metadata.texts("tokenizer.ggml.tokens"))
                count = static_cast<std::int64_t>(tokens->size());
        });
        return count;
    }

    [[nodiscard]] std::int64_t embeddingRows() const
    {
        const TensorInfo *embedding = m_checkpoint.find("token_embd.weight");
        return embedding != nullptr && embedding->shape.size() == 2 ? embedding->shape.front() : 0;
    }

    void describeTokenizer()
    {
        if (m_metadata.find("tokenizer.ggml.tokens") == nullptr)
            m_result.warnings.emplace_back("key \"tokenizer.ggml.tokens\" is missing: the file has no tokenizer");
        m_result.hasChatTemplate = !textOf("tokenizer.chat_template").empty();
        for (const char *key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"})
            checkTokenId(key);
    }

    void checkTokenId(const std::string &key)
    {
        tolerating([&] {
            const auto id = m_metadata.integer(key);
            if (id && m_result.vocabSize > 0 && (*id < 0 || *id >= m_result.vocabSize)) {
                m_result.warnings.push_back("key " + inQuotes(key) + " is " + std::to_string(*id)
                                            + ", outside the vocabulary of " + std::to_string(m_result.vocabSize)
                                            + " tokens: it is ignored");
            }
        });
    }

    const Checkpoint &m_checkpoint;
    const Metadata &m_metadata;
    ModelDescription m_result;
};

std::vector<InspectedTensor> listTensors(const Checkpoint &checkpoint)
{
    std::vector<InspectedTensor> result;
    for (const TensorInfo &tensor : checkpoint.tensors()) {
        const std::vector<std::int64_t> fileShape(tensor.shape.rbegin(), tensor.shape.rend());
        result.push_back({tensor.name, tensor.typeName, fileShape, tensor.fileOffset, tensor.bytes});
    }
    return result;
}

std::vector<std::pair<std::string, std::string>> listMetadata(const Checkpoint &checkpoint)
{
    std::vector<std::pair<std::string, std::string>> result;
    for (const auto &[key, value] : checkpoint.metadata().entries()) {
        const Json json = std::visit([](const auto &content) { return Json(content); }, value);
        result.emplace_back(key, json.dump(-1, ' ', false, Json::error_handler_t::replace));
    }
    return result;
}

} // namespace

ModelDescription inspectModel(const std::string &path, bool withTensors, bool withMetadata)
{
    if (isSafetensorsPath(path))
        return inspectSafetensors(path, withTensors, withMetadata);
    const std::unique_ptr<Checkpoint> checkpoint = openCheckpoint(path);
    ModelDescription result = Inspector(*checkpoint).describe();
    if (withTensors)
        result.tensors = listTensors(*checkpoint);
    if (withMetadata)
        result.metadataJson = listMetadata(*checkpoint);
    if (const std::string change = checkpoint->checkUnchanged(); !change.empty())
        throw Error(ErrorCode::IoError, change);
    return result;
}

} // namespace engine
