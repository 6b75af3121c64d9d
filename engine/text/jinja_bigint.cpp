// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_bigint.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace engine::jinja {

BigInt::BigInt(std::int64_t value)
    : m_negative(value < 0)
{
    auto magnitude = static_cast<std::uint64_t>(value);
    if (m_negative)
        magnitude = ~magnitude + 1;
    for (; magnitude != 0; magnitude >>= 32U)
        m_words.push_back(static_cast<std::uint32_t>(magnitude));
}

BigInt BigInt::fromDouble(double value)
{
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(value), &exponent);
    BigInt out(static_cast<std::int64_t>(std::ldexp(fraction, std::min(exponent, 53))));
    for (int left = exponent - 53; left > 0; left -= 31)
        multiplyAdd(out.m_words, 1U << static_cast<unsigned>(std::min(left, 31)), 0);
    out.m_negative = value < 0 && !out.m_words.empty();
    return out;
}

BigInt BigInt::fromDigits(std::string_view digits, unsigned base)
{
    BigInt out;
    for (const char c : digits) {
        const unsigned lower = static_cast<unsigned char>(c) | 0x20U;
        multiplyAdd(out.m_words, base, lower >= 'a' ? lower - 'a' + 10 : static_cast<unsigned>(c - '0'));
    }
    return out;
}

std::optional<std::int64_t> BigInt::toInt64() const
{
    if (m_words.size() > 2)
        return std::nullopt;
    std::uint64_t magnitude = 0;
    for (std::size_t i = m_words.size(); i-- > 0;)
        magnitude = (magnitude << 32U) | m_words[i];
    const std::uint64_t limit = (std::uint64_t{1} << 63U) - (m_negative ? 0 : 1);
    if (magnitude > limit)
        return std::nullopt;
    return static_cast<std::int64_t>(m_negative ? ~magnitude + 1 : magnitude);
}

double BigInt::toDouble() const
{
    if (m_words.empty())
        return 0;
    // The top 64 bits with a sticky last bit round exactly as the whole number would.
    const std::size_t bits = m_words.size() * 32 - static_cast<std::size_t>(std::countl_zero(m_words.back()));
    const std::size_t drop = bits > 64 ? bits - 64 : 0;
    std::uint64_t top = 0;
    bool sticky = false;
    for (std::size_t bit = bits; bit-- > drop;)
        top = (top << 1U) | ((m_words[bit / 32] >> (bit % 32)) & 1U);
    for (std::size_t bit = 0; bit < drop && !sticky; ++bit)
        sticky = ((m_words[bit / 32] >> (bit % 32)) & 1U) != 0;
    if (sticky)
        top |= 1U;
    const double magnitude =
        std::ldexp(static_cast<double>(top), static_cast<int>(std::min<std::size_t>(drop, 100000)));
    return m_negative ? -magnitude : magnitude;
}

std::string BigInt::toString(unsigned base) const
{
    if (m_words.empty())
        return "0";
    std::string out;
    for (Words rest = m_words; !rest.empty();) {
        // Nine decimal digits a division keep the count of long divisions low.
        std::uint32_t part = divideSmall(rest, base == 10 ? 1000000000U : base);
        for (int i = 0; i < (base == 10 ? 9 : 1) && (part != 0 || !rest.empty()); ++i) {
            out.push_back("0123456789abcdefghijklmnopqrstuvwxyz"[part % base]);
            part /= base;
        }
    }
    if (m_negative)
        out.push_back('-');
    std::reverse(out.begin(), out.end());
    return out;
}

std::uint64_t BigInt::residue() const
{
    constexpr std::uint64_t modulus = (std::uint64_t{1} << 61U) - 1;
    std::uint64_t out = 0;
    for (std::size_t i = m_words.size(); i-- > 0;)
        for (unsigned half = 2; half-- > 0;)
            out = ((out << 16U) % modulus + ((m_words[i] >> (16 * half)) & 0xffffU)) % modulus;
    return out;
}

BigInt BigInt::operator-() const
{
    return make(!m_negative, m_words);
}

BigInt operator+(const BigInt &a, const BigInt &b)
{
    if (a.m_negative == b.m_negative)
        return BigInt::make(a.m_negative, BigInt::addWords(a.m_words, b.m_words));
    if (BigInt::compareWords(a.m_words, b.m_words) >= 0)
        return BigInt::make(a.m_negative, BigInt::subtractWords(a.m_words, b.m_words));
    return BigInt::make(b.m_negative, BigInt::subtractWords(b.m_words, a.m_words));
}

BigInt operator-(const BigInt &a, const BigInt &b)
{
    return a + -b;
}

BigInt operator*(const BigInt &a, const BigInt &b)
{
    BigInt::Words out(a.m_words.size() + b.m_words.size());
    for (std::size_t i = 0; i < a.m_words.size(); ++i) {
        std::uint64_t carry = 0;
        for (std::size_t j = 0; j < b.m_words.size() || carry != 0; ++j) {
            const std::uint64_t factor = j < b.m_words.size() ? b.m_words[j] : 0;
            carry += std::uint64_t{a.m_words[i]} * factor + out[i + j];
            out[i + j] = static_cast<std::uint32_t>(carry);
            carry >>= 32U;
        }
    }
    return BigInt::make(a.m_negative != b.m_negative, std::move(out));
}

std::pair<BigInt, BigInt> BigInt::divideFloor(const BigInt &a, const BigInt &b)
{
    auto [quotient, remainder] = divideWords(a.m_words, b.m_words);
    BigInt q = make(a.m_negative != b.m_negative, std::move(quotient));
    BigInt r = make(a.m_negative, std::move(remainder));
    if (!r.isZero() && a.m_negative != b.m_negative) {
        q = q - BigInt(1);
        r = r + b;
    }
    return {std::move(q), std::move(r)};
}

std::strong_ordering operator<=>(const BigInt &a, const BigInt &b)
{
    if (a.m_negative != b.m_negative)
        return a.m_negative ? std::strong_ordering::less : std::strong_ordering::greater;
    const int order = BigInt::compareWords(a.m_words, b.m_words) * (a.m_negative ? -1 : 1);
    return order <=> 0;
}

int BigInt::compareWords(const Words &a, const Words &b)
{
    if (a.size() != b.size())
        return a.size() < b.size() ? -1 : 1;
    for (std::size_t i = a.size(); i-- > 0;) {
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    }
    return 0;
}

BigInt::Words BigInt::addWords(const Words &a, const Words &b)
{
    Words out;
    std::uint64_t carry = 0;
    for (std::size_t i = 0; i < std::max(a.size(), b.size()) || carry != 0; ++i) {
        carry += std::uint64_t{i < a.size() ? a[i] : 0} + (i < b.size() ? b[i] : 0);
        out.push_back(static_cast<std::uint32_t>(carry));
        carry >>= 32U;
    }
    return out;
}

BigInt::Words BigInt::subtractWords(const Words &a, const Words &b)
{
    Words out(a.size());
    std::int64_t borrow = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::int64_t word = std::int64_t{a[i]} - (i < b.size() ? b[i] : 0) - borrow;
        borrow = word < 0 ? 1 : 0;
        out[i] = static_cast<std::uint32_t>(word + (borrow << 32U));
    }
    return out;
}

std::uint32_t BigInt::divideSmall(Words &a, std::uint32_t by)
{
    std::uint64_t rest = 0;
    for (std::size_t i = a.size(); i-- > 0;) {
        rest = (rest << 32U) | a[i];
        a[i] = static_cast<std::uint32_t>(rest / by);
        rest %= by;
    }
    trim(a);
    return static_cast<std::uint32_t>(rest);
}

// Long division, Knuth, The Art of Computer Programming 2, 4.3.1, algorithm D.
std::pair<BigInt::Words, BigInt::Words> BigInt::divideWords(const Words &a, const Words &b)
{
    if (compareWords(a, b) < 0)
        return {Words(), a};
    if (b.size() == 1) {
        Words quotient = a;
        const std::uint32_t rest = divideSmall(quotient, b[0]);
        return {quotient, rest == 0 ? Words() : Words{rest}};
    }
    const auto shift = static_cast<unsigned>(std::countl_zero(b.back()));
    Words u = a;
    Words v = b;
    multiplyAdd(u, 1U << shift, 0);
    multiplyAdd(v, 1U << shift, 0);
    u.resize(a.size() + 1);
    const std::size_t n = v.size();
    Words quotient(u.size() - n);
    for (std::size_t j = quotient.size(); j-- > 0;) {
        const std::uint64_t top = (std::uint64_t{u[j + n]} << 32U) | u[j + n - 1];
        std::uint64_t digit = top / v[n - 1];
        std::uint64_t rest = top % v[n - 1];
        while (digit >> 32U != 0 || digit * v[n - 2] > ((rest << 32U) | u[j + n - 2])) {
            --digit;
            rest += v[n - 1];
            if (rest >> 32U != 0)
                break;
        }
        std::int64_t borrow = 0;
        std::uint64_t carry = 0;
        for (std::size_t i = 0; i <= n; ++i) {
            carry += digit * (i < n ? v[i] : 0);
            const std::int64_t word = std::int64_t{u[i + j]} - static_cast<std::uint32_t>(carry) - borrow;
            u[i + j] = static_cast<std::uint32_t>(word);
            borrow = word < 0 ? 1 : 0;
            carry >>= 32U;
        }
        if (borrow != 0) {
            --digit;
            std::uint64_t sum = 0;
            for (std::size_t i = 0; i <= n; ++i) {
                sum += std::uint64_t{u[i + j]} + (i < n ? v[i] : 0);
                u[i + j] = static_cast<std::uint32_t>(sum);
                sum >>= 32U;
            }
        }
        quotient[j] = static_cast<std::uint32_t>(digit);
    }
    trim(quotient);
    trim(u);
    [[maybe_unused]] const std::uint32_t zero = divideSmall(u, 1U << shift);
    return {quotient, u};
}

void BigInt::multiplyAdd(Words &a, std::uint32_t factor, std::uint32_t addend)
{
    std::uint64_t carry = addend;
    for (std::uint32_t &word : a) {
        carry += std::uint64_t{word} * factor;
        word = static_cast<std::uint32_t>(carry);
        carry >>= 32U;
    }
    if (carry != 0)
        a.push_back(static_cast<std::uint32_t>(carry));
}

void BigInt::trim(Words &words)
{
    while (!words.empty() && words.back() == 0)
        words.pop_back();
}

BigInt BigInt::make(bool negative, Words words)
{
    trim(words);
    BigInt out;
    out.m_words = std::move(words);
    out.m_negative = negative && !out.m_words.empty();
    return out;
}

} // namespace engine::jinja
