// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/fake_engine.h"
#include "ui/devices/device_card.h"
#include "ui/devices/devices_page.h"
#include "ui/engine_client.h"
#include "ui/widgets/device_row.h"

#include <QImage>
#include <QTest>

#include <memory>

namespace {

engine::DeviceStats gpu(double temperature)
{
    engine::DeviceStats stats;
    stats.id = "cuda:0";
    stats.name = "Example accelerator";
    stats.kind = "cuda";
    stats.memoryTotalBytes = std::size_t(48) << 30;
    stats.memoryFreeBytes = std::size_t(12) << 30;
    stats.temperatureC = temperature;
    stats.powerW = 268;
    stats.powerLimitW = 300;
    stats.utilization = 0.94;
    stats.clockMhz = 2505;
    stats.driver = "580.65";
    return stats;
}

engine::DeviceStats blind()
{
    engine::DeviceStats stats;
    stats.id = "cpu";
    stats.name = "Example processor";
    stats.kind = "cpu";
    stats.problem = "temperature: no sensor under /sys/class/hwmon";
    return stats;
}

bool holds(const QWidget &widget, const QColor &color)
{
    const QImage picture = const_cast<QWidget &>(widget).grab().toImage();
    for (int y = 0; y < picture.height(); ++y) {
        for (int x = 0; x < picture.width(); ++x) {
            if (picture.pixelColor(x, y) == color)
                return true;
        }
    }
    return false;
}

} // namespace

class TestDevices : public QObject {
    Q_OBJECT
private slots:
    void hotFrom85Degrees_data()
    {
        QTest::addColumn<double>("temperature");
        QTest::addColumn<bool>("hot");
        QTest::newRow("84") << 84.0 << false;
        QTest::newRow("85") << 85.0 << true;
        QTest::newRow("91") << 91.0 << true;
    }

    void hotFrom85Degrees()
    {
        QFETCH(double, temperature);
        QFETCH(bool, hot);
        ui::Theme theme;
        theme.setMode(ui::ThemeMode::Light);
        ui::DeviceRow row(theme);
        row.resize(468, 84);
        row.setStats(gpu(temperature));
        QCOMPARE(holds(row, theme.tokens().badText), hot);
        ui::DeviceCard card(theme);
        card.resize(900, 232);
        card.setStats(gpu(temperature));
        QCOMPARE(holds(card, theme.tokens().badText), hot);
        QVERIFY(holds(card, theme.tokens().warn)); // the mark at 85 °C
    }

    void absentIsNotZeroAndHasAReason()
    {
        ui::Theme theme;
        ui::DeviceRow row(theme);
        row.setStats(blind());
        QVERIFY(row.accessibleDescription().contains(QStringLiteral("n/a")));
        QVERIFY(!row.accessibleDescription().contains(QStringLiteral("0 °C")));
        QVERIFY(row.toolTip().contains(QStringLiteral("no sensor under")));
        row.resize(468, 84);
        row.grab(); // nothing to divide by
    }

    void cardTellsWhatGpusTell()
    {
        ui::Theme theme;
        ui::DeviceCard card(theme);
        card.setStats(blind());
        const int plain = card.height();
        QVERIFY(card.details().isEmpty());
        engine::DeviceStats stats = gpu(70);
        stats.memoryTemperatureC = 91;
        stats.pcieGeneration = 4;
        stats.pcieLanes = 16;
        stats.pcieSendBytesPerSecond = 3.0 * 1024 * 1024;
        stats.throttleReasons = {"power limit", "hardware slowdown"};
        stats.eccErrors = 2;
        stats.xid = 79;
        card.setStats(stats);
        QVERIFY(card.height() > plain);
        const QString told = card.details().join(QLatin1Char('\n'));
        for (const char *part : {"memory temperature 91", "PCIe 4 x16", "to the host 3", "from it n/a",
                                 "clocks lowered: power limit, hardware slowdown", "ECC errors 2", "Xid 79"})
            QVERIFY2(told.contains(QLatin1String(part)), qPrintable(told));
        stats.throttleReasons->clear();
        stats.eccErrors.reset();
        card.setStats(stats);
        QVERIFY(card.details().join(QLatin1Char('\n')).contains(QStringLiteral("clocks not lowered · ECC errors n/a")));
    }

    void pageFollowsTheDevices()
    {
        auto owned = std::make_unique<FakeEngine>();
        FakeEngine &fake = *owned;
        ui::EngineClient client(std::move(owned));
        ui::Theme theme;
        ui::DevicesPage page(theme, client);
        QVERIFY(!fake.isWatched(engine::Topic::Devices));
        page.show();
        QTRY_COMPARE(page.cards().size(), 1);
        fake.setDevices({blind(), gpu(70), gpu(90)});
        QTRY_COMPARE(page.cards().size(), 3);
        QVERIFY(page.cards()[1]->summary().contains(QStringLiteral("driver 580.65")));
        fake.setDevices({blind()});
        QTRY_COMPARE(page.cards().size(), 1);
        page.hide();
        QVERIFY(!fake.isWatched(engine::Topic::Devices));
    }
};

QTEST_MAIN(TestDevices)
#include "tst_devices.moc"
