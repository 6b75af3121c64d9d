// SPDX-License-Identifier: GPL-3.0-or-later
// Broken and costly tokenizer files end as the collection's manifest says, and a sound one still works afterwards.
#include "engine/api/error.h"
#include "engine/api/text.h"
#include "tests/support/hostile_cases.h"
#include "tests/support/shared_data.h"

#include <QElapsedTimer>
#include <QFile>
#include <QJsonArray>
#include <QTemporaryDir>
#include <QTest>

#include <optional>

namespace {

std::vector<int> idList(const QJsonValue &value)
{
    std::vector<int> ids;
    for (const QJsonValue &id : value.toArray())
        ids.push_back(id.toInt());
    return ids;
}

QString inputText(const QJsonObject &input)
{
    return input.contains(QStringLiteral("text"))
        ? input.value(QStringLiteral("text")).toString()
        : input.value(QStringLiteral("repeat")).toString().repeated(input.value(QStringLiteral("count")).toInt())
            + input.value(QStringLiteral("suffix")).toString();
}

/// Peak resident memory of this process in KiB; the peak can be reset through clear_refs.
double peakKib()
{
    QFile status(QStringLiteral("/proc/self/status"));
    if (!status.open(QIODevice::ReadOnly))
        return 0;
    for (const QByteArray &line : status.readAll().split('\n')) {
        if (line.startsWith("VmHWM:"))
            return line.mid(6).trimmed().split(' ').first().toDouble();
    }
    return 0;
}

void resetPeak()
{
    QFile file(QStringLiteral("/proc/self/clear_refs"));
    if (file.open(QIODevice::WriteOnly))
        file.write("5");
}

/// Opens the file and encodes the case's inputs. The error's text if it was refused; `fault` says what was wrong.
std::optional<QString> refusal(const hostile::Case &input, QString &fault)
{
    try {
        const auto model = engine::openTextModel(input.path.toStdString());
        for (const QJsonValue &value : input.json.value(QStringLiteral("inputs")).toArray()) {
            const QJsonObject object = value.toObject();
            const std::string text = inputText(object).toStdString();
            const bool special = object.value(QStringLiteral("special")).toBool(true);
            const std::vector<int> ids = model->encode(text, {false, special});
            const std::string back = model->decode(ids, false);
            if (QString::fromStdString(back).toStdString() != back)
                fault = QStringLiteral("decode gave text that is not UTF-8");
            if (object.contains(QStringLiteral("ids"))
                && (ids != idList(object.value(QStringLiteral("ids"))) || back != text))
                fault = QStringLiteral("other ids than the manifest's, or another text back");
        }
    } catch (const engine::Error &error) {
        if (error.code() != engine::ErrorCode::Refused)
            fault = QStringLiteral("refused with another code");
        return QString::fromUtf8(error.what());
    }
    return std::nullopt;
}

} // namespace

class TestTokenizerHostile : public QObject {
    Q_OBJECT

private slots:
    void initTestCase()
    {
        if (!m_cases.problem().isEmpty())
            QSKIP(qPrintable(m_cases.problem()));
    }

    void manifest_data()
    {
        QTest::addColumn<int>("index");
        const QList<hostile::Case> cases = m_cases.group(QStringLiteral("tokenizer"));
        for (qsizetype i = 0; i < cases.size(); ++i)
            QTest::newRow(qPrintable(cases[i].name)) << static_cast<int>(i);
        const QList<hostile::Case> gguf = m_cases.group(QStringLiteral("gguf"));
        for (qsizetype i = 0; i < gguf.size(); ++i) {
            if (gguf[i].category == QStringLiteral("gguf/vocabulary"))
                QTest::newRow(qPrintable(gguf[i].name)) << static_cast<int>(cases.size() + i);
        }
    }
    void manifest()
    {
        QFETCH(int, index);
        const QList<hostile::Case> all =
            m_cases.group(QStringLiteral("tokenizer")) + m_cases.group(QStringLiteral("gguf"));
        const hostile::Case input = all.at(index);
        resetPeak();
        [[maybe_unused]] const double before = peakKib(); // not judged under ASan, which keeps freed memory
        QElapsedTimer clock;
        clock.start();
        QString fault;
        const std::optional<QString> error = refusal(input, fault);
        const double seconds = static_cast<double>(clock.elapsed()) / 1000;
        QVERIFY2(fault.isEmpty(), qPrintable(fault));
        QVERIFY2(seconds <= input.seconds, qPrintable(QString::number(seconds)));
#ifndef __SANITIZE_ADDRESS__
        QVERIFY2((peakKib() - before) / 1024 <= input.extraMib, qPrintable(QString::number(peakKib() - before)));
#endif
        QVERIFY2(input.outcome != QStringLiteral("accept") || !error, qPrintable(error.value_or(QString())));
        QVERIFY(input.outcome != QStringLiteral("refuse") || error);
        if (error) {
            const QString missing = hostile::missingWords(input, *error);
            QVERIFY2(missing.isEmpty(), qPrintable(missing + QStringLiteral(" not in: ") + *error));
            QVERIFY2(!error->contains(QLatin1Char('\n')) && error->size() < 1000, qPrintable(*error));
        }
        const hostile::Case control = m_cases.control(QStringLiteral("tokenizer"));
        QVERIFY2(!refusal(control, fault) && fault.isEmpty(), qPrintable(fault));
    }

    /// The manifest's sweep "truncate" over the control: no shorter file is a tokenizer.
    void truncated()
    {
        QFile file(m_cases.control(QStringLiteral("tokenizer")).path);
        QVERIFY(file.open(QIODevice::ReadOnly));
        const QByteArray whole = file.readAll();
        QTemporaryDir dir;
        hostile::Case input;
        input.path = dir.filePath(QStringLiteral("cut.json"));
        for (qsizetype size = 0; size < whole.size(); ++size) {
            QFile cut(input.path);
            QVERIFY(cut.open(QIODevice::WriteOnly) && cut.write(whole.left(size)) == size);
            cut.close();
            QString fault;
            QVERIFY2(refusal(input, fault) && fault.isEmpty(), qPrintable(QString::number(size) + fault));
        }
    }

private:
    hostile::Cases m_cases;
};

QTEST_GUILESS_MAIN(TestTokenizerHostile)
#include "tst_tokenizer_hostile.moc"
