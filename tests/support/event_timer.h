// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QApplication>
#include <QElapsedTimer>
#include <QThread>
#include <QVector>

#include <algorithm>

/// An application that measures how long each outermost event handler keeps the UI thread.
class TimedApplication : public QApplication {
public:
    using QApplication::QApplication;

    bool notify(QObject *receiver, QEvent *event) override
    {
        if (QThread::currentThread() != thread()) // every thread's events come by here
            return QApplication::notify(receiver, event);
        if (m_depth++ > 0 || !m_recording) {
            const bool result = QApplication::notify(receiver, event);
            --m_depth;
            return result;
        }
        QElapsedTimer timer;
        timer.start();
        const bool result = QApplication::notify(receiver, event);
        --m_depth;
        m_micros.append(timer.nsecsElapsed() / 1000);
        return result;
    }

    void startRecording()
    {
        m_micros.clear();
        m_recording = true;
    }
    void stopRecording()
    {
        m_recording = false;
        std::sort(m_micros.begin(), m_micros.end());
    }
    [[nodiscard]] qsizetype handlers() const { return m_micros.size(); }
    [[nodiscard]] double longestMs() const { return m_micros.isEmpty() ? 0 : double(m_micros.last()) / 1000; }
    /// Of the handlers that took 0.1 ms or more; the many empty ones would hide every slow one.
    [[nodiscard]] double percentileMs(double share) const
    {
        const auto first = std::lower_bound(m_micros.begin(), m_micros.end(), 100);
        const auto count = m_micros.end() - first;
        return count == 0 ? 0 : double(first[std::min<qsizetype>(count - 1, qsizetype(double(count) * share))]) / 1000;
    }

private:
    QVector<qint64> m_micros;
    int m_depth = 0;
    bool m_recording = false;
};
