// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

/// Tokens that stand for one byte each, spelled <0x00> to <0xFF>.
/// Source: google/sentencepiece, src/model_interface.h, ByteToPiece.
namespace engine::byte_fallback {

[[nodiscard]] std::string spelling(char byte);
/// The byte of such a token; nothing for every other text. Small letters are read too.
[[nodiscard]] std::optional<char> byteOf(std::string_view spelling);

} // namespace engine::byte_fallback
