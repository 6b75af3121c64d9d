// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/theme.h"

#include <QApplication>
#include <QDBusConnection>
#include <QDBusMessage>
#include <QDBusVariant>
#include <QFontDatabase>
#include <QPalette>

namespace ui {

namespace {

constexpr auto portalService = "org.freedesktop.portal.Desktop";
constexpr auto portalPath = "/org/freedesktop/portal/desktop";
constexpr auto portalInterface = "org.freedesktop.portal.Settings";
constexpr int portalTimeoutMs = 500;

QColor rgb(QRgb value)
{
    return QColor::fromRgb(value);
}

// Standard controls only; own widgets paint themselves. @names are replaced by tokens. Fields to write in have their
// text colour from the palette: Qt makes placeholders half transparent where a sheet sets it, too faint to read.
constexpr auto styleSheet = R"(
QLineEdit, QPlainTextEdit, QSpinBox, QDoubleSpinBox, QComboBox {
  background:@lifted; border:1px solid @line; border-radius:8px; padding:0 10px; min-height:28px;
  selection-background-color:@accent; selection-color:@accentText; }
QLineEdit:focus, QComboBox:focus { border-color:@accent; }
QLineEdit[flat="true"] { background:transparent; border-color:transparent; border-radius:4px; padding:0 1px 0 3px; min-height:18px; }
QLineEdit[flat="true"]:hover { border-color:@line; }
QLineEdit[flat="true"]:focus { border-color:@accent; background:@lifted; }
QLabel[tone="muted"] { color:@muted; }
QLabel[tone="quiet"] { color:@quiet; }
QLabel[tone="warn"] { color:@warnText; }
QLabel[tone="bad"] { color:@badText; }
QLabel[tone="ok"] { color:@okText; }
QPlainTextEdit { background:transparent; border:0; padding:0; }
QPushButton { background:@raised; color:@text; border:1px solid @line; border-radius:8px; padding:0 14px;
  min-height:28px; font-weight:600; }
QPushButton:hover { border-color:@faint; }
QPushButton:focus { border-color:@accent; }
QPushButton:disabled { color:@quiet; }
QPushButton[primary="true"] { background:@accent; color:@accentText; border-color:@accent; }
QPushButton[primary="true"]:focus { border-color:@text; }
QPushButton[primary="true"]:disabled { background:@raised; color:@quiet; border-color:@line; }
QToolButton { background:transparent; color:@muted; border:1px solid transparent; border-radius:6px; padding:3px; }
QToolButton::menu-indicator { image:none; }
QToolButton:hover { background:@raised; color:@text; }
QToolButton:focus { border-color:@accent; }
QScrollBar:vertical { background:transparent; width:10px; margin:2px; }
QScrollBar:horizontal { background:transparent; height:10px; margin:2px; }
QScrollBar::handle { background:@line; border-radius:3px; min-height:32px; min-width:32px; }
QScrollBar::handle:hover { background:@faint; }
QScrollBar::add-line, QScrollBar::sub-line { height:0; width:0; }
QScrollBar::add-page, QScrollBar::sub-page { background:transparent; }
QScrollArea { background:transparent; border:0; }
QToolTip { background:@raised; color:@text; border:1px solid @line; padding:4px 8px; }
QMenu { background:@panel; color:@text; border:1px solid @line; border-radius:8px; padding:4px; }
QMenu::item { padding:6px 24px 6px 12px; border-radius:6px; }
QMenu::item:selected { background:@accent; color:@accentText; }
QMenu::item:disabled { color:@quiet; }
QMenu::separator { height:1px; background:@line; margin:4px 8px; }
QMenuBar { background:@panel; color:@muted; }
QMenuBar::item { padding:5px 10px; background:transparent; }
QMenuBar::item:selected { background:@raised; color:@text; }
QHeaderView::section { background:@panel; color:@muted; border:0; border-bottom:1px solid @line; padding:4px 8px; }
QSplitter::handle { background:@line; }
QDockWidget { color:@text; }
QDockWidget::title { background:@panel; padding:6px 12px; }
QMainWindow::separator { background:@line; width:1px; height:1px; }
QListView { background:transparent; border:0; outline:0; }
)";

QString filledSheet(const Tokens &t, const QColor &lifted)
{
    // The longer of two names with a common start comes first.
    const QList<QPair<QString, QColor>> names{{"@accentText", t.accentText},
                                              {"@accent", t.accent},
                                              {"@raised", t.raised},
                                              {"@lifted", lifted},
                                              {"@faint", t.faint},
                                              {"@quiet", t.quiet},
                                              {"@muted", t.muted},
                                              {"@panel", t.panel},
                                              {"@warnText", t.warnText},
                                              {"@badText", t.badText},
                                              {"@okText", t.okText},
                                              {"@text", t.text},
                                              {"@line", t.line}};
    QString sheet = QString::fromLatin1(styleSheet);
    for (const auto &[name, color] : names)
        sheet.replace(name, color.name());
    return sheet;
}

QPalette paletteFrom(const Tokens &t)
{
    QPalette palette;
    palette.setColor(QPalette::Window, t.bg);
    palette.setColor(QPalette::Base, t.panel);
    palette.setColor(QPalette::AlternateBase, t.raised);
    palette.setColor(QPalette::Button, t.raised);
    palette.setColor(QPalette::ToolTipBase, t.raised);
    palette.setColor(QPalette::PlaceholderText, t.quiet);
    palette.setColor(QPalette::Highlight, t.accent);
    palette.setColor(QPalette::HighlightedText, t.accentText);
    palette.setColor(QPalette::Link, t.accent);
    palette.setColor(QPalette::LinkVisited, t.accent);
    for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText, QPalette::ToolTipText}) {
        palette.setColor(role, t.text);
        palette.setColor(QPalette::Disabled, role, t.quiet);
    }
    return palette;
}

QString firstFamily(const QStringList &names, QFontDatabase::SystemFont fallback)
{
    for (const QString &name : names) {
        if (QFontDatabase::hasFamily(name))
            return name;
    }
    return QFontDatabase::systemFont(fallback).family();
}

} // namespace

const Tokens &Theme::darkTokens()
{
    static const Tokens tokens{rgb(0x13151A), rgb(0x1A1D24), rgb(0x222630), rgb(0x2C313C), rgb(0xE7EAF0), rgb(0x98A2B3),
                               rgb(0x8791A3), rgb(0x5C6675), rgb(0x58A6FF), rgb(0x0B1220), rgb(0x3FB97A), rgb(0xE3A93B),
                               rgb(0xF0625A), rgb(0x3FB97A), rgb(0xE3A93B), rgb(0xF4716A), rgb(0x262B35), rgb(0x7AB8FF),
                               rgb(0x9BD6A3), rgb(0xE8B86D), rgb(0x8893A8), rgb(0xC9A6F5)};
    return tokens;
}

const Tokens &Theme::lightTokens()
{
    static const Tokens tokens{rgb(0xF4F5F8), rgb(0xFFFFFF), rgb(0xF0F2F6), rgb(0xDCE0E8), rgb(0x1A1F29), rgb(0x5A6474),
                               rgb(0x626C7C), rgb(0x98A1B0), rgb(0x1769D2), rgb(0xFFFFFF), rgb(0x1E9A5B), rgb(0xB97A00),
                               rgb(0xD23B33), rgb(0x157545), rgb(0x8A5A00), rgb(0xC4322A), rgb(0xE6E9EF), rgb(0x1558B0),
                               rgb(0x1D7A45), rgb(0x8A5A00), rgb(0x5F6979), rgb(0x7B3FB5)};
    return tokens;
}

Theme::Theme(QObject *parent)
    : QObject(parent)
    , m_uiFamily(firstFamily({"Inter"}, QFontDatabase::GeneralFont))
    , m_monoFamily(firstFamily({"JetBrains Mono", "DejaVu Sans Mono"}, QFontDatabase::FixedFont))
{
}

const Tokens &Theme::tokens() const
{
    return m_dark ? darkTokens() : lightTokens();
}

QColor Theme::lifted() const
{
    return m_dark ? tokens().raised : tokens().panel;
}

QColor Theme::series(int index)
{
    static constexpr QRgb colors[seriesCount] = {0x56B4E9, 0xE69F00, 0x2BB58A, 0xCC79A7,
                                                 0xD9CC3C, 0x7A8CF0, 0xE0703A, 0x9AA3AE};
    return rgb(colors[unsigned(index) % seriesCount]);
}

QColor Theme::seriesText(int index) const
{
    static constexpr QRgb onLight[seriesCount] = {0x1A6FA8, 0x8A5F00, 0x137355, 0xA0447A,
                                                  0x716800, 0x4355CC, 0xAF4715, 0x5A6472};
    return m_dark ? series(index) : rgb(onLight[unsigned(index) % seriesCount]);
}

QFont Theme::ui(qreal pixels, int weight) const
{
    QFont font(m_uiFamily);
    font.setPixelSize(qRound(pixels));
    if (pixels != qRound(pixels))
        font.setPointSizeF(pixels * 72.0 / 96.0); // half pixel sizes only exist as points
    font.setWeight(QFont::Weight(weight));
    font.setHintingPreference(QFont::PreferNoHinting);
    return font;
}

QFont Theme::mono(qreal pixels, int weight) const
{
    QFont font = ui(pixels, weight);
    font.setFamily(m_monoFamily);
    font.setFixedPitch(true);
    font.setStyleStrategy(QFont::PreferNoShaping); // code shows the characters, not ligatures
    return font;
}

void Theme::setMode(ThemeMode mode)
{
    m_mode = mode;
    if (mode == ThemeMode::System && !m_listening)
        readDesktop();
    const bool dark = mode == ThemeMode::System ? m_systemDark : mode == ThemeMode::Dark;
    if (m_applied && dark == m_dark)
        return;
    m_dark = dark;
    apply();
    emit changed();
}

void Theme::apply()
{
    m_applied = true;
    QApplication::setPalette(paletteFrom(tokens()));
    QApplication::setFont(ui(13));
    qApp->setStyleSheet(filledSheet(tokens(), lifted()));
}

// Qt 6.5 has QStyleHints::colorScheme(); before it the portal is asked directly, and without a portal the palette
// that the platform gave us tells.
void Theme::readDesktop()
{
    m_listening = true;
    const QPalette palette = QApplication::palette();
    m_systemDark = palette.color(QPalette::Window).lightnessF() < palette.color(QPalette::WindowText).lightnessF();
    if (!askDesktop())
        qInfo("no desktop portal answered: light or dark is taken from the palette and does not change live");
}

bool Theme::askDesktop()
{
    QDBusConnection bus = QDBusConnection::sessionBus();
    if (!bus.isConnected())
        return false;
    if (!bus.connect(portalService, portalPath, portalInterface, "SettingChanged", this,
                     SLOT(desktopSettingChanged(QDBusMessage))))
        qWarning("the desktop portal does not let the window follow light and dark");
    const QPair<const char *, const char *> keys[] = {{"org.freedesktop.appearance", "color-scheme"},
                                                      {"org.freedesktop.appearance", "reduced-motion"},
                                                      {"org.gnome.desktop.interface", "enable-animations"}};
    bool answered = false;
    for (const auto &[space, key] : keys) {
        QDBusMessage call = QDBusMessage::createMethodCall(portalService, portalPath, portalInterface, "Read");
        call << QString::fromLatin1(space) << QString::fromLatin1(key);
        const QDBusMessage reply = bus.call(call, QDBus::Block, portalTimeoutMs);
        if (reply.type() == QDBusMessage::ReplyMessage && !reply.arguments().isEmpty()) {
            takeSetting(space, key, reply.arguments().constFirst());
            answered = true;
        } else if (reply.errorName() != QLatin1String("org.freedesktop.portal.Error.NotFound")) {
            break; // no portal, or a hanging one: one time limit is enough
        }
    }
    return answered;
}

void Theme::desktopSettingChanged(const QDBusMessage &message)
{
    const QList<QVariant> arguments = message.arguments();
    if (arguments.size() == 3)
        takeSetting(arguments[0].toString(), arguments[1].toString(), arguments[2]);
}

void Theme::takeSetting(const QString &space, const QString &key, QVariant value)
{
    while (value.canConvert<QDBusVariant>())
        value = value.value<QDBusVariant>().variant(); // Read() wraps twice
    if (space == QLatin1String("org.freedesktop.appearance") && key == QLatin1String("color-scheme")) {
        const uint scheme = value.toUInt(); // 0 no preference, 1 dark, 2 light
        if (scheme == 1 || scheme == 2)
            m_systemDark = scheme == 1;
        if (m_mode == ThemeMode::System && m_applied)
            setMode(ThemeMode::System);
    } else if (key == QLatin1String("reduced-motion")) {
        m_reduceMotion = value.toUInt() == 1;
    } else if (key == QLatin1String("enable-animations")) {
        m_reduceMotion = !value.toBool();
    }
}

} // namespace ui
