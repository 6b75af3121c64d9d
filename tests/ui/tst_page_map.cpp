// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/fake_engine.h"
#include "ui/engine_client.h"
#include "ui/inspect/pages_card.h"
#include "ui/widgets/page_map.h"

#include <QImage>
#include <QSignalSpy>
#include <QTest>

using ui::PageMap;
using ui::PagesCard;

namespace {

engine::BlockInfo block(engine::BlockState state, int references)
{
    engine::BlockInfo info;
    info.state = state;
    info.refCount = references;
    return info;
}

} // namespace

class TestPageMap : public QObject {
    Q_OBJECT
private slots:
    void statesLookDifferentWithoutColour()
    {
        ui::Theme theme;
        theme.setMode(ui::ThemeMode::Dark);
        PageMap map(theme);
        map.resize(200, 40);
        map.setCells({quint16(0), quint16(PageMap::Shared), quint16(PageMap::Cached), quint16(PageMap::Free),
                      quint16(PageMap::InWindow), quint16(PageMap::Cached | PageMap::InWindow)});
        const QImage picture = map.grab().toImage();
        const auto at = [&](int cell, double dx, double dy) {
            const QRectF r = map.cellRect(cell);
            return picture.pixelColor(int(r.x() + r.width() * dx), int(r.y() + r.height() * dy));
        };
        QVERIFY(at(0, .5, .5) == ui::Theme::series(0));
        QVERIFY(at(1, .5, .5) != at(1, .15, .5));      // a dot in the middle
        QCOMPARE(at(2, .5, .5), theme.tokens().panel); // only an outline
        QCOMPARE(at(3, .5, .5), theme.tokens().free);
        QVERIFY(at(4, .5, .5) == ui::Theme::series(0));
        QVERIFY(at(4, .5, .8) != ui::Theme::series(0)); // a bar along the foot
        QCOMPARE(at(5, .5, .5), theme.tokens().panel);
        QVERIFY(at(5, .5, .8) != theme.tokens().panel);
    }

    void onlyChangesAreStamped()
    {
        ui::Theme theme;
        PageMap map(theme);
        map.resize(300, 300);
        QList<quint16> cells(500, PageMap::Free);
        QCOMPARE(map.setCells(cells), 500);
        QCOMPARE(map.setCells(cells), 0);
        cells[7] = 3;
        cells[499] = PageMap::Cached;
        QCOMPARE(map.setCells(cells), 2);
        const QRectF r = map.cellRect(7);
        QCOMPARE(map.grab().toImage().pixelColor(r.center().toPoint()), ui::Theme::series(3));
    }

    void allCellsFit_data()
    {
        QTest::addColumn<int>("count");
        QTest::addColumn<QSize>("size");
        for (const int count : {1, 96, 700, 12288, 100000}) {
            for (const QSize size : {QSize(466, 220), QSize(301, 97), QSize(1500, 800)})
                QTest::addRow("%d in %dx%d", count, size.width(), size.height()) << count << size;
        }
    }

    void allCellsFit()
    {
        QFETCH(int, count);
        QFETCH(QSize, size);
        ui::Theme theme;
        PageMap map(theme);
        map.resize(size);
        map.setCells(QList<quint16>(count, PageMap::Free));
        map.grab();
        const QRectF last = map.cellRect(count - 1);
        if (double(size.width()) * size.height() >= count)
            QVERIFY2(last.bottom() <= size.height() + 1, qPrintable(QString::number(last.bottom())));
        for (const int cell : {0, count / 2, count - 1})
            QCOMPARE(map.cellAt(map.cellRect(cell).center() + QPointF(.01, .01)), cell);
        QCOMPARE(map.cellAt({-1, 5}), -1);
        QCOMPARE(map.cellAt({double(size.width()) + 20, 5}), -1);
    }

    // A pool too large for readable squares becomes a taller map, but never an endless one.
    void largePoolsStayReadable()
    {
        ui::Theme theme;
        PageMap map(theme);
        map.setCells(QList<quint16>(15485, PageMap::Free));
        QCOMPARE(map.heightFor(466, 20000, 8), 20000);
        map.resize(466, map.heightFor(466, 220, 8));
        map.grab(); // delivers the resize
        QVERIFY(map.height() > 1000);
        QVERIFY2(map.pitch() >= 8, qPrintable(QString::number(map.pitch())));
        map.setCells(QList<quint16>(1000000, PageMap::Free));
        QVERIFY(map.heightFor(466, 220, 8) < 20000);
    }

    void arrowsWalk()
    {
        ui::Theme theme;
        PageMap map(theme);
        map.resize(112, 112);
        map.setCells(QList<quint16>(40, PageMap::Free));
        QSignalSpy current(&map, &PageMap::currentChanged);
        QTest::keyClick(&map, Qt::Key_Right);
        QTest::keyClick(&map, Qt::Key_Right);
        QCOMPARE(map.currentCell(), 1);
        QTest::keyClick(&map, Qt::Key_Down);
        QVERIFY(map.currentCell() > 2);
        QTest::keyClick(&map, Qt::Key_Escape);
        QCOMPARE(map.currentCell(), -1);
        QCOMPARE(current.count(), 4);
    }

    void blocksBecomeCells()
    {
        QCOMPARE(PagesCard::cellState(block(engine::BlockState::Free, 0), 4), quint16(PageMap::Free));
        QCOMPARE(PagesCard::cellState(block(engine::BlockState::Cached, 0), 4), quint16(PageMap::Cached));
        QCOMPARE(PagesCard::cellState(block(engine::BlockState::Used, 1), 4), quint16(4));
        QCOMPARE(PagesCard::cellState(block(engine::BlockState::Used, 3), 4), quint16(4 | PageMap::Shared));
        engine::BlockInfo seen = block(engine::BlockState::Used, 1);
        seen.inWindow = true;
        QCOMPARE(PagesCard::cellState(seen, 4), quint16(4 | PageMap::InWindow));
        seen.state = engine::BlockState::Cached;
        QCOMPARE(PagesCard::cellState(seen, 4), quint16(PageMap::Cached | PageMap::InWindow));
    }

    void cardTellsRequestAndTokens()
    {
        ui::Theme theme;
        auto owned = std::make_unique<FakeEngine>();
        FakeEngine &fake = *owned;
        ui::EngineClient client(std::move(owned));
        client.loadModel(QStringLiteral("/models/example.gguf"));
        QTRY_VERIFY(client.model().has_value());
        PagesCard card(theme, client);
        card.resize(496, 300);
        QVERIFY(!fake.isWatched(engine::Topic::Blocks)); // hidden: not watched
        card.show();
        QVERIFY(fake.isWatched(engine::Topic::Blocks));
        engine::Request request;
        request.prompt = "why";
        const quint64 id = client.submit(request);
        client.setRequestName(id, QStringLiteral("Paged attention"));
        fake.step();
        QTRY_COMPARE(card.map()->cellCount(), 96);
        QTRY_COMPARE(card.map()->cell(0), quint16(client.seriesOf(id)));
        QTest::mouseMove(card.map(), card.map()->cellRect(0).center().toPoint());
        QTRY_VERIFY(card.detail().contains(QStringLiteral("#%1").arg(id)));
        QVERIFY(card.detail().contains(QStringLiteral("Paged attention")));
        QVERIFY(card.detail().contains(QStringLiteral("tokens 0–15")));
        QTRY_COMPARE(card.blockText(), QStringLiteral("text of block 0"));
        card.hide();
        QVERIFY(!fake.isWatched(engine::Topic::Blocks));
    }
};

QTEST_MAIN(TestPageMap)
#include "tst_page_map.moc"
