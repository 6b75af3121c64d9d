// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/grammar.h"

#include <optional>
#include <string>
#include <string_view>

namespace engine {

/// The JSON texts that fit a schema, as a grammar; `{}` is any JSON value. Members come in the order of the schema,
/// further ones behind them; white space is bounded, and so are the digits of numbers, so that a model cannot lose
/// itself in them. Understood:
/// - any value: type, enum, const, anyOf, oneOf whose branches can be told apart, allOf of one schema, $ref within the
///   schema
/// - objects: properties, required, additionalProperties, patternProperties, propertyNames, minProperties,
/// maxProperties
/// - lists: items, prefixItems, minItems, maxItems, uniqueItems where items is an enum
/// - strings: minLength, maxLength, pattern (schema_pattern.h) and format (json_text.h)
/// - numbers: minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf of whole numbers
/// and what only describes.
/// \throws Error Refused naming the keyword and its place when the schema is wrong or says anything else
[[nodiscard]] Grammar jsonSchemaGrammar(std::string_view schema);

/// A schema of one call {name, arguments} of any of the tools in a request's list, or nothing when none of them is
/// `strict`: calls of strict tools must fit their parameters, those of others need only be calls of that tool.
/// \throws Error Refused when the list is no list of functions with names
[[nodiscard]] std::optional<std::string> strictCallSchema(std::string_view toolsJson);

} // namespace engine
