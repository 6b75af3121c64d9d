// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QColor>
#include <QFont>
#include <QObject>
#include <QVariant>

class QDBusMessage;

namespace ui {

/// The colours of one theme. Everything that paints reads them at paint time; nothing keeps a copy.
///
/// `faint` is for strokes only: as text it would fall under a contrast of 4.5 : 1, `quiet` is its readable sister.
/// The same holds for `ok`, `warn`, `bad` (areas) and their `...Text` variants.
struct Tokens {
    QColor bg, panel, raised, line, text, muted, quiet, faint, accent, accentText;
    QColor ok, warn, bad, okText, warnText, badText, free;
    QColor keyword, string, number, comment, type; ///< code
};

enum class ThemeMode { System, Light, Dark };

/// Palette, fonts and the one style sheet of the window; light or dark, following the desktop live.
///
/// Made once in main() and handed by reference to everything that paints. Thread: UI.
class Theme : public QObject {
    Q_OBJECT
public:
    explicit Theme(QObject *parent = nullptr);

    [[nodiscard]] const Tokens &tokens() const;
    [[nodiscard]] bool isDark() const { return m_dark; }
    [[nodiscard]] ThemeMode mode() const { return m_mode; }
    /// The desktop asks for no animations.
    [[nodiscard]] bool reduceMotion() const { return m_reduceMotion; }
    /// A surface lying on the background (bubbles, selected rows, inputs); in light, `raised` would not show there.
    [[nodiscard]] QColor lifted() const;
    /// Colour of an area or line of series `index`; safe for colour-blind readers (Okabe-Ito), repeats after 8.
    [[nodiscard]] static QColor series(int index);
    /// The same series as text, at least 4.5 : 1 on every surface of the theme.
    [[nodiscard]] QColor seriesText(int index) const;
    static constexpr int seriesCount = 8;

    [[nodiscard]] QFont ui(qreal pixels, int weight = QFont::Normal) const;
    /// Fixed-width digits without ligatures, for changing figures and code.
    [[nodiscard]] QFont mono(qreal pixels, int weight = QFont::Normal) const;

    /// Applies light, dark or the desktop's choice to the application.
    void setMode(ThemeMode mode);

    [[nodiscard]] static const Tokens &darkTokens();
    [[nodiscard]] static const Tokens &lightTokens();

signals:
    void changed();

public slots:
    /// A desktop setting changed: (namespace, key, value). Public because D-Bus delivers to a slot by name.
    void desktopSettingChanged(const QDBusMessage &message);

private:
    void readDesktop();
    bool askDesktop();
    void takeSetting(const QString &space, const QString &key, QVariant value);
    void apply();

    ThemeMode m_mode = ThemeMode::System;
    bool m_dark = true;
    bool m_applied = false;
    bool m_listening = false;
    bool m_systemDark = false;
    bool m_reduceMotion = false;
    QString m_uiFamily;
    QString m_monoFamily;
};

} // namespace ui
