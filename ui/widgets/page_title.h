// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/theme.h"

#include <QWidget>

namespace ui {

/// Name of a page with one muted line about what it is for.
class PageTitle : public QWidget {
    Q_OBJECT
public:
    PageTitle(Theme &theme, const QString &title, const QString &subtitle, QWidget *parent = nullptr);

protected:
    void paintEvent(QPaintEvent *event) override;

private:
    Theme &m_theme;
    QString m_title;
    QString m_subtitle;
};

} // namespace ui
