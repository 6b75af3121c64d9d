// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/device_monitor.h"
#include "engine/runtime/nccl.h"

#include <QDir>
#include <QFile>
#include <QTemporaryDir>
#include <QTest>

class DeviceMonitorTest : public QObject {
    Q_OBJECT

private slots:
    void readsTheMadeUpHost();
    void missingSensorsAreNamed();
    void readsGpusThroughTheLibrary();
    void keepsTheLastFault();
    void aDriverThatDoesNotStartIsNamed();
    void collectives_data();
    void collectives();

private:
    static void write(const QString &path, const QByteArray &text);
    static engine::DeviceSources hostIn(const QTemporaryDir &folder);
};

void DeviceMonitorTest::write(const QString &path, const QByteArray &text)
{
    QVERIFY(QDir().mkpath(QFileInfo(path).path()));
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(text);
}

engine::DeviceSources DeviceMonitorTest::hostIn(const QTemporaryDir &folder)
{
    return {"libnvidia-ml-absent.so", folder.filePath("proc").toStdString(), folder.filePath("sys").toStdString()};
}

void DeviceMonitorTest::readsTheMadeUpHost()
{
    const QTemporaryDir folder;
    write(folder.filePath("proc/cpuinfo"), "model name\t: Test CPU\ncpu MHz\t\t: 1234.5\n");
    write(folder.filePath("proc/meminfo"), "MemTotal:       2048 kB\nMemFree: 1 kB\nMemAvailable:   1024 kB\n");
    write(folder.filePath("proc/stat"), "cpu  100 0 0 100 0 0 0 0 0 0\n");
    write(folder.filePath("sys/class/hwmon/hwmon0/name"), "nvme\n");
    write(folder.filePath("sys/class/hwmon/hwmon0/temp1_input"), "99000\n");
    write(folder.filePath("sys/class/hwmon/hwmon1/name"), "k10temp\n");
    write(folder.filePath("sys/class/hwmon/hwmon1/temp1_input"), "61500\n");
    engine::DeviceMonitor monitor(hostIn(folder));
    QVERIFY(!monitor.read().front().utilization);

    write(folder.filePath("proc/stat"), "cpu  175 0 0 125 0 0 0 0 0 0\n");
    const std::vector<engine::DeviceStats> devices = monitor.read();
    QCOMPARE(devices.size(), std::size_t(1));
    const engine::DeviceStats &cpu = devices.front();
    QCOMPARE(cpu.name, std::string("Test CPU"));
    QCOMPARE(cpu.memoryTotalBytes.value(), std::size_t(2048 * 1024));
    QCOMPARE(cpu.memoryFreeBytes.value(), std::size_t(1024 * 1024));
    QCOMPARE(cpu.utilization.value(), 0.75);
    QCOMPARE(cpu.temperatureC.value(), 61.5);
    QCOMPARE(cpu.clockMhz.value(), 1234.5);
    QVERIFY(!cpu.isa.empty());
}

void DeviceMonitorTest::missingSensorsAreNamed()
{
    const QTemporaryDir folder;
    engine::DeviceMonitor monitor(hostIn(folder));
    const engine::DeviceStats cpu = monitor.read().front();
    QVERIFY(!cpu.temperatureC && !cpu.powerW && !cpu.memoryTotalBytes && !cpu.clockMhz);
    for (const char *word : {"temperature", "power", "memory", "utilisation", "clock", "libnvidia-ml-absent.so"})
        QVERIFY2(cpu.problem.find(word) != std::string::npos, word);
}

void DeviceMonitorTest::readsGpusThroughTheLibrary()
{
    engine::Nvml nvml(FAKE_NVML);
    QCOMPARE(nvml.problem(), std::string());
    const std::vector<engine::DeviceStats> gpus = nvml.read();
    QCOMPARE(gpus.size(), std::size_t(2));
    QCOMPARE(gpus[0].id, std::string("cuda:0"));
    QCOMPARE(gpus[0].name, std::string("Full"));
    QCOMPARE(gpus[0].driver, std::string("580.12"));
    QCOMPARE(gpus[0].temperatureC.value(), 86.0);
    QCOMPARE(gpus[0].powerW.value(), 250.5);
    QCOMPARE(gpus[0].powerLimitW.value(), 300.0);
    QCOMPARE(gpus[0].utilization.value(), 0.75);
    QCOMPARE(gpus[0].clockMhz.value(), 1800.0);
    QCOMPARE(gpus[0].memoryClockMhz.value(), 9000.0);
    QCOMPARE(gpus[0].memoryFreeBytes.value(), std::size_t(600));
    QCOMPARE(gpus[0].memoryTemperatureC.value(), 91.0);
    QCOMPARE(gpus[0].pcieSendBytesPerSecond.value(), 2000.0 * 1024);
    QCOMPARE(gpus[0].pcieReceiveBytesPerSecond.value(), 3000.0 * 1024);
    QCOMPARE(gpus[0].pcieGeneration.value(), 4);
    QCOMPARE(gpus[0].pcieLanes.value(), 16);
    QCOMPARE(gpus[0].throttleReasons.value(), (std::vector<std::string>{"power limit", "hardware thermal slowdown"}));
    QCOMPARE(gpus[0].eccErrors.value(), std::uint64_t(2));
    QVERIFY(!gpus[0].xid);
    QCOMPARE(gpus[0].problem, std::string());
    QVERIFY(gpus[1].throttleReasons && gpus[1].throttleReasons->empty()); // idle clocks are not lowered ones
    QVERIFY(!gpus[1].eccErrors && !gpus[1].memoryTemperatureC);
    QVERIFY(!gpus[1].temperatureC && !gpus[1].powerW);
    QCOMPARE(gpus[1].problem,
             std::string("temperature: Not Supported; power: Not Supported; memory temperature: Not Supported; "
                         "ECC: Not Supported; Xid: Not Supported"));
}

void DeviceMonitorTest::keepsTheLastFault()
{
    engine::Nvml nvml(FAKE_NVML);
    QVERIFY(!nvml.read()[0].xid);
    qputenv("FAKE_NVML_XID", "79");
    QCOMPARE(nvml.read()[0].xid.value(), 79);
    qunsetenv("FAKE_NVML_XID");
    QCOMPARE(nvml.read()[0].xid.value(), 79);
    QVERIFY(!nvml.read()[1].xid);
}

void DeviceMonitorTest::aDriverThatDoesNotStartIsNamed()
{
    qputenv("FAKE_NVML_NO_DRIVER", "1");
    engine::Nvml nvml(FAKE_NVML);
    qunsetenv("FAKE_NVML_NO_DRIVER");
    QVERIFY(nvml.read().empty());
    QCOMPARE(nvml.problem(), std::string("NVML did not start: Driver Not Loaded"));
}

void DeviceMonitorTest::collectives_data()
{
    QTest::addColumn<QString>("library");
    QTest::addColumn<QByteArray>("told");
    QTest::addColumn<bool>("fails");
    QTest::addColumn<std::string>("version");
    QTest::addColumn<std::string>("problem");
    const QString fake = FAKE_NCCL;
    QTest::newRow("new") << fake << QByteArray("22703") << false << std::string("2.27.3") << std::string();
    QTest::newRow("old") << fake << QByteArray("2804") << false << std::string("2.8.4") << std::string();
    QTest::newRow("fails") << fake << QByteArray("0") << true << std::string()
                           << std::string("does not tell its version: unhandled system error");
    QTest::newRow("absent") << "libnccl-absent.so.2" << QByteArray() << false << std::string()
                            << std::string("NCCL was not found: libnccl-absent.so.2");
    QTest::newRow("another library") << FAKE_NVML << QByteArray() << false << std::string()
                                     << std::string("has no ncclGetVersion");
}

void DeviceMonitorTest::collectives()
{
    QFETCH(QString, library);
    QFETCH(QByteArray, told);
    QFETCH(bool, fails);
    QFETCH(std::string, version);
    QFETCH(std::string, problem);
    qputenv("FAKE_NCCL_VERSION", told);
    qputenv("FAKE_NCCL_ERROR", fails ? "2" : "0");
    const engine::CollectiveLibrary found = engine::openNccl(library.toStdString());
    QCOMPARE(found.version, version);
    QCOMPARE(found.problem.empty(), problem.empty());
    QVERIFY2(found.problem.find(problem) != std::string::npos, found.problem.c_str());
}

QTEST_GUILESS_MAIN(DeviceMonitorTest)
#include "tst_device_monitor.moc"
