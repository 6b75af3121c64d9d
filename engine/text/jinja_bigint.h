// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace engine::jinja {

/// An integer of any size, for results that leave 64 bits. Cost grows with the square of the size; callers charge it.
class BigInt {
public:
    BigInt() = default;
    explicit BigInt(std::int64_t value);
    /// Truncates. \pre value is finite
    [[nodiscard]] static BigInt fromDouble(double value);
    /// Digits of base 2 to 36, no sign. \pre every character is a digit of the base
    [[nodiscard]] static BigInt fromDigits(std::string_view digits, unsigned base);

    [[nodiscard]] bool negative() const { return m_negative; }
    [[nodiscard]] bool isZero() const { return m_words.empty(); }
    [[nodiscard]] std::size_t words() const { return m_words.size(); } ///< of 32 bits
    [[nodiscard]] std::optional<std::int64_t> toInt64() const;
    [[nodiscard]] double toDouble() const; ///< nearest; infinite when too large
    [[nodiscard]] std::string toString(unsigned base = 10) const;
    /// The remainder modulo 2^61 - 1 of the magnitude, a hash that equal integers share.
    [[nodiscard]] std::uint64_t residue() const;

    [[nodiscard]] BigInt operator-() const;
    friend BigInt operator+(const BigInt &a, const BigInt &b);
    friend BigInt operator-(const BigInt &a, const BigInt &b);
    friend BigInt operator*(const BigInt &a, const BigInt &b);
    /// Quotient and remainder rounded towards minus infinity. \pre b is not zero
    [[nodiscard]] static std::pair<BigInt, BigInt> divideFloor(const BigInt &a, const BigInt &b);
    friend bool operator==(const BigInt &a, const BigInt &b) = default;
    friend std::strong_ordering operator<=>(const BigInt &a, const BigInt &b);

private:
    using Words = std::vector<std::uint32_t>; ///< least significant first, no leading zeros
    [[nodiscard]] static int compareWords(const Words &a, const Words &b);
    [[nodiscard]] static Words addWords(const Words &a, const Words &b);
    [[nodiscard]] static Words subtractWords(const Words &a, const Words &b); ///< \pre a >= b
    [[nodiscard]] static std::uint32_t divideSmall(Words &a, std::uint32_t by);
    [[nodiscard]] static std::pair<Words, Words> divideWords(const Words &a, const Words &b);
    static void multiplyAdd(Words &a, std::uint32_t factor, std::uint32_t addend);
    static void trim(Words &words);
    [[nodiscard]] static BigInt make(bool negative, Words words);

    bool m_negative = false;
    Words m_words;
};

} // namespace engine::jinja
