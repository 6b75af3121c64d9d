// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/logit_scans.h"

#include "kernels/cpu/isa.h"

#include <QTest>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace kernels;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr int sentinel = -77;

std::vector<float> gaussian(std::size_t size, float spread)
{
    std::mt19937 random(static_cast<unsigned>(size));
    std::normal_distribution<float> normal(3, spread);
    std::vector<float> values(size);
    for (float &value : values)
        value = normal(random);
    return values;
}

} // namespace

/// Every level against plain loops, at sizes that end anywhere in a vector or a chunk.
class TestLogitScans : public QObject {
    Q_OBJECT

private slots:
    void passes_data()
    {
        QTest::addColumn<QString>("level");
        QTest::addColumn<int>("size");
        for (const Isa level : {Isa::Scalar, Isa::Avx2, Isa::Avx512}) {
            const QString name = QString::fromStdString(std::string(isaName(level)));
            for (const int size : {1, 3, 7, 8, 17, 31, 63, 255, 256, 257, 300, 511, 1000, 5003})
                QTest::addRow("%s, %d", qPrintable(name), size) << name << size;
        }
    }
    void passes()
    {
        QFETCH(QString, level);
        QFETCH(int, size);
        const std::vector<Isa> granted = detectIsa();
        if (std::ranges::none_of(granted, [&](Isa isa) { return isaName(isa) == level.toStdString(); }))
            QSKIP(qPrintable("needs a processor with " + level));
        const LogitScans &scans = logitScans(level.toStdString());
        for (const float spread : {1e-4F, 1.0F, 6.0F}) {
            std::vector<float> x = gaussian(static_cast<std::size_t>(size), spread);
            if (size > 5)
                x[static_cast<std::size_t>(size) / 2] = -infinity;
            peaks(scans, x);
            sums(scans, x);
            lists(scans, x);
        }
        faults(scans, gaussian(static_cast<std::size_t>(size), 2.0F));
    }

private:
    static void peaks(const LogitScans &scans, const std::vector<float> &x)
    {
        std::vector<float> found((x.size() + LogitScans::chunk - 1) / LogitScans::chunk + 1, -7.0F);
        QVERIFY(!scans.peaks(x.data(), x.size(), found.data()));
        for (std::size_t first = 0, c = 0; first < x.size(); first += LogitScans::chunk, ++c) {
            const auto end = x.begin() + static_cast<std::ptrdiff_t>(std::min(x.size(), first + LogitScans::chunk));
            QCOMPARE(found[c], *std::max_element(x.begin() + static_cast<std::ptrdiff_t>(first), end));
        }
        QCOMPARE(found.back(), -7.0F);
    }

    static void sums(const LogitScans &scans, const std::vector<float> &x)
    {
        const float peak = *std::ranges::max_element(x);
        const std::vector<double> wide(x.begin(), x.end());
        for (const double factor : {0.5, 1.0, 1.25, 100.0}) {
            std::vector<double> exponentials(x.size() + 1, sentinel);
            const double given = scans.exponentials(wide.data(), wide.size(), peak, factor, exponentials.data());
            QCOMPARE(exponentials.back(), double(sentinel));
            long double sum = 0;
            for (std::size_t i = 0; i < x.size(); ++i) {
                const long double right = std::exp((static_cast<long double>(x[i]) - peak) * factor);
                sum += right;
                QVERIFY(std::abs(exponentials[i] - right) <= LogitScans::preciseError * right
                        || (right < 1e-300L && exponentials[i] <= 1e-300));
            }
            QVERIFY(std::abs(given - sum) <= 1e-12L * sum);
            const double precise = scans.preciseSum(x.data(), x.size(), peak, factor);
            QVERIFY(std::abs(precise - sum) <= 1e-12L * sum);
            const double rough = scans.roughSum(x.data(), x.size(), peak, static_cast<float>(factor));
            QVERIFY(std::abs(rough - sum) <= LogitScans::roughError * sum);
        }
    }

    static void lists(const LogitScans &scans, const std::vector<float> &x)
    {
        const float peak = *std::ranges::max_element(x);
        for (const float limit : {-infinity, x[0], x[x.size() / 3], peak, peak + 1}) {
            std::vector<int> found(x.size() + LogitScans::roomBehind + 1, sentinel);
            std::vector<double> values(found.size(), sentinel);
            const std::size_t count = scans.gather(x.data(), x.size(), limit, 1000, found.data(), values.data());
            QCOMPARE(found.back(), sentinel);
            QCOMPARE(values.back(), double(sentinel));
            std::vector<int> right;
            for (std::size_t i = 0; i < x.size(); ++i)
                if (x[i] >= limit)
                    right.push_back(1000 + static_cast<int>(i));
            found.resize(count);
            QVERIFY(found == right);
            for (std::size_t i = 0; i < count; ++i)
                QCOMPARE(values[i], static_cast<double>(x[static_cast<std::size_t>(found[i] - 1000)]));
        }
        const std::vector<double> wide(x.begin(), x.end());
        for (const double scale : {0.0, 1.0, 700.0}) {
            if (scale == 0.0 && std::ranges::count(x, -infinity) > 0)
                continue; // 0 x infinity
            std::vector<int> places(x.size() + 1, sentinel);
            scans.places(wide.data(), wide.size(), peak, scale, 2047, places.data());
            QCOMPARE(places.back(), sentinel);
            for (std::size_t i = 0; i < x.size(); ++i)
                QCOMPARE(places[i], static_cast<int>(std::min((double(peak) - wide[i]) * scale, 2047.0)));
            const int place = places[x.size() / 3];
            std::vector<int> positions(x.size() + 1, sentinel);
            const std::size_t count = scans.positions(places.data(), x.size(), place, positions.data());
            QCOMPARE(positions.back(), sentinel);
            std::vector<int> right;
            for (std::size_t i = 0; i < x.size(); ++i)
                if (places[i] == place)
                    right.push_back(static_cast<int>(i));
            positions.resize(count);
            QVERIFY(positions == right);
        }
    }

    static void faults(const LogitScans &scans, const std::vector<float> &x)
    {
        std::vector<float> found((x.size() + LogitScans::chunk - 1) / LogitScans::chunk);
        for (const float fault : {std::numeric_limits<float>::quiet_NaN(), infinity}) {
            for (const std::size_t at : {std::size_t{0}, x.size() / 2, x.size() - 1}) {
                std::vector<float> bad = x;
                bad[at] = fault;
                QVERIFY(scans.peaks(bad.data(), bad.size(), found.data()));
                bad[at] = -infinity;
                QVERIFY(!scans.peaks(bad.data(), bad.size(), found.data()));
            }
        }
    }
};

QTEST_GUILESS_MAIN(TestLogitScans)
#include "tst_logit_scans.moc"
