// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/theme.h"

#include <QApplication>
#include <QDBusMessage>
#include <QDBusVariant>
#include <QLineEdit>
#include <QPalette>
#include <QSignalSpy>
#include <QTest>

#include <cmath>

using ui::Theme;
using ui::ThemeMode;
using ui::Tokens;

namespace {

double luminance(const QColor &color)
{
    const auto linear = [](double c) { return c <= 0.03928 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4); };
    return 0.2126 * linear(color.redF()) + 0.7152 * linear(color.greenF()) + 0.0722 * linear(color.blueF());
}

// WCAG 2.1, section 1.4.3
double contrast(const QColor &a, const QColor &b)
{
    const double la = luminance(a), lb = luminance(b);
    return (std::max(la, lb) + 0.05) / (std::min(la, lb) + 0.05);
}

QDBusMessage settingChanged(const char *space, const char *key, const QVariant &value)
{
    QDBusMessage message =
        QDBusMessage::createSignal(QStringLiteral("/org/freedesktop/portal/desktop"),
                                   QStringLiteral("org.freedesktop.portal.Settings"), QStringLiteral("SettingChanged"));
    message << QString::fromLatin1(space) << QString::fromLatin1(key) << QVariant::fromValue(QDBusVariant(value));
    return message;
}

} // namespace

class TestTheme : public QObject {
    Q_OBJECT
private slots:
    void textIsReadable_data()
    {
        QTest::addColumn<bool>("dark");
        QTest::newRow("dark") << true;
        QTest::newRow("light") << false;
    }

    void textIsReadable()
    {
        QFETCH(bool, dark);
        Theme theme;
        theme.setMode(dark ? ThemeMode::Dark : ThemeMode::Light);
        const Tokens &t = theme.tokens();
        const QList<QPair<const char *, QColor>> texts{
            {"text", t.text},     {"muted", t.muted},       {"quiet", t.quiet},     {"accent", t.accent},
            {"okText", t.okText}, {"warnText", t.warnText}, {"badText", t.badText}, {"keyword", t.keyword},
            {"string", t.string}, {"number", t.number},     {"comment", t.comment}, {"type", t.type}};
        const QList<QColor> surfaces{t.bg, t.panel, t.raised, theme.lifted()};
        for (const QColor &surface : surfaces) {
            for (const auto &[name, color] : texts)
                QVERIFY2(contrast(color, surface) >= 4.5, name);
            for (int i = 0; i < Theme::seriesCount; ++i)
                QVERIFY2(contrast(theme.seriesText(i), surface) >= 4.5, qPrintable(QString::number(i)));
        }
        QVERIFY(contrast(t.accentText, t.accent) >= 4.5);
    }

    // A style sheet with a text colour makes Qt draw placeholders half transparent.
    void placeholdersAreReadable_data() { textIsReadable_data(); }
    void placeholdersAreReadable()
    {
        QFETCH(bool, dark);
        Theme theme;
        theme.setMode(dark ? ThemeMode::Dark : ThemeMode::Light);
        QLineEdit edit;
        edit.ensurePolished();
        const QColor ink = edit.palette().color(QPalette::PlaceholderText);
        QCOMPARE(ink.alpha(), 255);
        QVERIFY(contrast(ink, theme.lifted()) >= 4.5);
        QCOMPARE(edit.palette().color(QPalette::Text), theme.tokens().text);
    }

    void paletteFollows()
    {
        Theme theme;
        theme.setMode(ThemeMode::Light);
        QCOMPARE(QApplication::palette().color(QPalette::Window), Theme::lightTokens().bg);
        QSignalSpy changed(&theme, &Theme::changed);
        theme.setMode(ThemeMode::Dark);
        QCOMPARE(changed.count(), 1);
        QCOMPARE(QApplication::palette().color(QPalette::Window), Theme::darkTokens().bg);
        theme.setMode(ThemeMode::Dark);
        QCOMPARE(changed.count(), 1);
        QVERIFY2(!qApp->styleSheet().contains(u'@'), "a token of the style sheet was not filled in");
    }

    void desktopSwitchesLive()
    {
        Theme theme;
        theme.setMode(ThemeMode::System);
        theme.desktopSettingChanged(settingChanged("org.freedesktop.appearance", "color-scheme", 2u));
        QVERIFY(!theme.isDark());
        QSignalSpy changed(&theme, &Theme::changed);
        theme.desktopSettingChanged(settingChanged("org.freedesktop.appearance", "color-scheme", 1u));
        QVERIFY(theme.isDark());
        QCOMPARE(changed.count(), 1);
        theme.desktopSettingChanged(settingChanged("org.freedesktop.appearance", "color-scheme", 0u)); // no preference
        QVERIFY(theme.isDark());
    }

    void forcedModeIgnoresTheDesktop()
    {
        Theme theme;
        theme.setMode(ThemeMode::Light);
        theme.desktopSettingChanged(settingChanged("org.freedesktop.appearance", "color-scheme", 1u));
        QVERIFY(!theme.isDark());
    }

    void motionPreference()
    {
        Theme theme;
        theme.desktopSettingChanged(settingChanged("org.gnome.desktop.interface", "enable-animations", false));
        QVERIFY(theme.reduceMotion());
        theme.desktopSettingChanged(settingChanged("org.freedesktop.appearance", "reduced-motion", 0u));
        QVERIFY(!theme.reduceMotion());
    }

    void oddMessagesAreIgnored()
    {
        Theme theme;
        theme.setMode(ThemeMode::Dark);
        theme.desktopSettingChanged(QDBusMessage());
        theme.desktopSettingChanged(settingChanged("org.freedesktop.appearance", "accent-color", 2u));
        QVERIFY(theme.isDark());
    }
};

QTEST_MAIN(TestTheme)
#include "tst_theme.moc"
