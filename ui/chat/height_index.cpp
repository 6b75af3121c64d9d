// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/height_index.h"

#include <algorithm>

namespace ui {
namespace {

std::size_t lowBit(std::size_t i)
{
    return i & (~i + 1);
}

} // namespace

void HeightIndex::append(double height)
{
    m_values.push_back(height);
    const std::size_t i = m_values.size();
    double sum = height;
    const std::size_t low = i - lowBit(i);
    for (std::size_t j = i - 1; j > low; j -= lowBit(j))
        sum += m_tree[j];
    m_tree.push_back(sum);
}

void HeightIndex::set(int index, double height)
{
    const auto at = static_cast<std::size_t>(index);
    const double change = height - m_values[at];
    if (change == 0)
        return;
    m_values[at] = height;
    for (std::size_t i = at + 1; i < m_tree.size(); i += lowBit(i))
        m_tree[i] += change;
}

void HeightIndex::truncate(int count)
{
    // A node covers only indexes up to its own, so dropping the last ones leaves the others right.
    m_values.resize(static_cast<std::size_t>(count));
    m_tree.resize(static_cast<std::size_t>(count) + 1);
}

double HeightIndex::before(int index) const
{
    double sum = 0;
    for (auto i = static_cast<std::size_t>(index); i > 0; i -= lowBit(i))
        sum += m_tree[i];
    return sum;
}

int HeightIndex::find(double y) const
{
    std::size_t position = 0;
    std::size_t step = 1;
    while (step * 2 < m_tree.size())
        step *= 2;
    for (; step > 0; step /= 2) {
        if (position + step < m_tree.size() && m_tree[position + step] <= y) {
            position += step;
            y -= m_tree[position];
        }
    }
    return std::min(static_cast<int>(position), size() - 1);
}

} // namespace ui
