// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/format.h"

#include <QTest>

#include <limits>

using namespace ui;

class TestFormat : public QObject {
    Q_OBJECT
private slots:
    void counts()
    {
        QCOMPARE(format::count(0), QStringLiteral("0"));
        QCOMPARE(format::count(12288), QStringLiteral("12,288"));
        QCOMPARE(format::counted(1, QStringLiteral("token"), QStringLiteral("tokens")), QStringLiteral("1 token"));
        QCOMPARE(format::counted(0, QStringLiteral("token"), QStringLiteral("tokens")), QStringLiteral("0 tokens"));
    }

    void numbers()
    {
        QCOMPARE(format::number(0.5), QStringLiteral("0.50"));
        QCOMPARE(format::number(41.23), QStringLiteral("41.2"));
        QCOMPARE(format::number(9.999), QStringLiteral("10.0"));
        QCOMPARE(format::number(99.97), QStringLiteral("100"));
        QCOMPARE(format::number(1284.4), QStringLiteral("1,284"));
        QCOMPARE(format::number(std::numeric_limits<double>::quiet_NaN()), QStringLiteral("n/a"));
    }

    void byteUnits()
    {
        QCOMPARE(format::bytes(0), QStringLiteral("0 B"));
        QCOMPARE(format::bytes(1023), QStringLiteral("1,023 B"));
        QCOMPARE(format::bytes(1024), QStringLiteral("1.0 KiB"));
        QCOMPARE(format::bytes(std::size_t(9.6 * (1 << 30))), QStringLiteral("9.6 GiB"));
        QCOMPARE(format::bytes((std::size_t(1) << 30) - 1), QStringLiteral("1.0 GiB"));
        QCOMPARE(format::bytes(std::size_t(200) << 20), QStringLiteral("200 MiB"));
    }

    void shares()
    {
        QCOMPARE(format::percent(0), QStringLiteral("0 %"));
        QCOMPARE(format::percent(0.018), QStringLiteral("1.8 %"));
        QCOMPARE(format::percent(0.61), QStringLiteral("61 %"));
        QCOMPARE(format::percent(1), QStringLiteral("100 %"));
    }

    void times()
    {
        QCOMPARE(format::milliseconds(3.26), QStringLiteral("3.3 ms"));
        QCOMPARE(format::milliseconds(27.4), QStringLiteral("27 ms"));
        QCOMPARE(format::milliseconds(999.6), QStringLiteral("1.0 s"));
    }

    void absentIsNotZero()
    {
        QCOMPARE(format::optional(std::nullopt, QStringLiteral("°C")), QStringLiteral("n/a"));
        QCOMPARE(format::optional(0.0, QStringLiteral("°C")), QStringLiteral("0 °C"));
        QCOMPARE(format::optional(71.4, QStringLiteral("°C")), QStringLiteral("71 °C"));
    }

    void knobs()
    {
        QCOMPARE(format::knob(2048, 1), QStringLiteral("2,048"));
        QCOMPARE(format::knob(0.7, 0.05), QStringLiteral("0.70"));
        QCOMPARE(format::knob(1, 0.1), QStringLiteral("1.0"));
    }

    void namesOfModels()
    {
        QCOMPARE(format::modelName(QStringLiteral("/m/SmolLM2-135M-Instruct.Q4_1.gguf")),
                 QStringLiteral("SmolLM2-135M-Instruct.Q4_1"));
        QCOMPARE(format::modelName(QStringLiteral("/m/big-00001-of-00003.GGUF")), QStringLiteral("big"));
        QCOMPARE(format::modelName(QStringLiteral("/m/Llama-3.2-1B/")), QStringLiteral("Llama-3.2-1B"));
        QCOMPARE(format::modelName(QStringLiteral("plain")), QStringLiteral("plain"));
        QCOMPARE(format::modelName(QStringLiteral("/m/.gguf")), QStringLiteral("/m/.gguf"));
    }

    void sentences()
    {
        QCOMPARE(format::sentence(QStringLiteral("the disk is full ")), QStringLiteral("The disk is full."));
        QCOMPARE(format::sentence(QStringLiteral("Done.")), QStringLiteral("Done."));
        QCOMPARE(format::sentence({}), QString());
    }
};

QTEST_GUILESS_MAIN(TestFormat)
#include "tst_format.moc"
