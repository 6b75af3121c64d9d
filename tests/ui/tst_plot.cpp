// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/paint.h"
#include "ui/widgets/plot.h"

#include <QFile>
#include <QImage>
#include <QTemporaryDir>
#include <QTest>
#include <QWheelEvent>

#include <cmath>

using ui::Plot;

namespace {

struct Fixture {
    ui::Theme theme;
    Plot plot{theme, QStringLiteral("Rates"), QStringLiteral("seconds"), QStringLiteral("tokens per second")};

    Fixture()
    {
        theme.setMode(ui::ThemeMode::Dark);
        plot.addLine(QStringLiteral("decode"), 0, QStringLiteral("tok/s"), true);
        plot.setData(0, {0, 1, 2, 3}, {10, 20, 30, 1284});
        plot.setFollowRange(0, 3);
        plot.resize(600, 300);
    }
};

} // namespace

class TestPlot : public QObject {
    Q_OBJECT
private slots:
    void hoverValues()
    {
        Fixture f;
        QCOMPARE(f.plot.valuesAt(2), QStringLiteral("decode 30.0 tok/s"));
        QCOMPARE(f.plot.valuesAt(3), QStringLiteral("decode 1,284 tok/s"));
        f.plot.setData(0, {}, {});
        QCOMPARE(f.plot.valuesAt(2), QString());
    }

    void zoomEndsFollowing()
    {
        Fixture f;
        f.plot.show();
        QTest::qWait(150);
        QVERIFY(f.plot.follows());
        QWidget *canvas = f.plot.childAt(300, 150);
        QVERIFY(canvas);
        QWheelEvent wheel({300, 150}, canvas->mapToGlobal(QPointF(300, 150)), {}, {0, 120}, Qt::NoButton,
                          Qt::NoModifier, Qt::NoScrollPhase, false);
        QCoreApplication::sendEvent(canvas, &wheel);
        QVERIFY(!f.plot.follows());
        f.plot.setFollowRange(0, 50);
        QTest::qWait(150);
        QVERIFY(!f.plot.follows());
        QTest::mouseDClick(canvas, Qt::LeftButton);
        QVERIFY(f.plot.follows());
    }

    void exports()
    {
        Fixture f;
        QTemporaryDir dir;
        QString why;
        QVERIFY(f.plot.exportTo(dir.filePath(QStringLiteral("a.png")), &why));
        QVERIFY(!QImage(dir.filePath(QStringLiteral("a.png"))).isNull());
        QVERIFY(f.plot.exportTo(dir.filePath(QStringLiteral("a.pdf")), &why));
        QVERIFY(f.plot.exportTo(dir.filePath(QStringLiteral("a.csv")), &why));
        QFile csv(dir.filePath(QStringLiteral("a.csv")));
        QVERIFY(csv.open(QIODevice::ReadOnly));
        QCOMPARE(
            csv.readAll(),
            QByteArray("series,seconds,tokens per second\ndecode,0,10\ndecode,1,20\ndecode,2,30\ndecode,3,1284\n"));
        QVERIFY(!f.plot.exportTo(dir.filePath(QStringLiteral("a.xyz")), &why));
        QVERIFY(why.contains(QStringLiteral("a.xyz")));
        QVERIFY(!f.plot.exportTo(dir.filePath(QStringLiteral("no/such/a.png")), &why));
    }

    void isNamedForAssistivePrograms()
    {
        Fixture f;
        f.plot.show();
        QCOMPARE(f.plot.accessibleName(), QStringLiteral("Rates"));
        QVERIFY(!f.plot.childAt(300, 150)->accessibleName().isEmpty());
    }

    // Few points are stroked, many become one span per pixel column: both must draw the same shape.
    void paintedLineKeepsItsExtremes_data()
    {
        QTest::addColumn<int>("points");
        for (const int points : {2, 40, 120, 500, 20000})
            QTest::addRow("%d points", points) << points;
    }

    void paintedLineKeepsItsExtremes()
    {
        QFETCH(int, points);
        std::vector<float> values(std::size_t(points), 50.f);
        values[std::size_t(points / 2)] = 100;
        QImage image(240, 102, QImage::Format_RGB32);
        image.fill(Qt::black);
        QPainter painter(&image);
        painter.setRenderHint(QPainter::Antialiasing);
        ui::paint::line(painter, QRectF(0, 1, 240, 100), {values, Qt::white, 1.5, false}, 0, 100);
        painter.end();
        const auto rowLit = [&](int y) {
            for (int x = 0; x < image.width(); ++x) {
                if (qGray(image.pixel(x, y)) > 60)
                    return true;
            }
            return false;
        };
        QVERIFY2(rowLit(1) || rowLit(2), "the highest value is missing");
        QVERIFY(rowLit(51) || rowLit(50));
        QVERIFY(!rowLit(80));
    }

    void gapsStayGaps()
    {
        const float none = NAN;
        const std::vector<float> values{50, none, none, none, 50};
        QImage image(200, 100, QImage::Format_RGB32);
        image.fill(Qt::black);
        QPainter painter(&image);
        ui::paint::line(painter, QRectF(0, 0, 200, 100), {values, Qt::white, 1.5, true}, 0, 100);
        painter.end();
        QCOMPARE(qGray(image.pixel(100, 50)), 0);
    }
};

QTEST_MAIN(TestPlot)
#include "tst_plot.moc"
