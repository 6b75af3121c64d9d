// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QByteArray>
#include <QList>

#include <utility>

/// A blocking HTTP client on the loopback that sends any bytes and looks at every one that comes back.
class HttpClient {
public:
    struct Response {
        int status = 0; ///< 0: the connection was closed without an answer, or nothing came in time
        QByteArray head;
        QByteArray body; ///< without the framing of chunks
        [[nodiscard]] QByteArray header(const QByteArray &name) const;
    };

    explicit HttpClient(int port, int timeoutMs = 20'000, int receiveBuffer = 0);
    ~HttpClient();
    HttpClient(const HttpClient &) = delete;
    HttpClient &operator=(const HttpClient &) = delete;
    HttpClient(HttpClient &&other) noexcept
        : m_socket(std::exchange(other.m_socket, -1))
        , m_input(std::move(other.m_input))
    {
    }

    HttpClient &operator=(HttpClient &&other) noexcept
    {
        std::swap(m_socket, other.m_socket);
        std::swap(m_input, other.m_input);
        return *this;
    }

    [[nodiscard]] bool isOpen() const { return m_socket >= 0; }
    bool send(const QByteArray &bytes);
    /// One whole response; what comes behind it waits for the next call.
    Response read();
    /// Reads until `text` has come; false when the connection ends or the time is up before.
    bool readUntil(const QByteArray &text);
    /// Whether the server has closed: reads and drops what comes until then.
    bool isClosedByServer();
    /// Closes with a reset, as a killed program's system may.
    void reset();
    /// Says that nothing more is sent; answers can still be read.
    void finishSending();
    void close();

    static QByteArray get(const QByteArray &path, const QByteArray &headers = {});
    static QByteArray post(const QByteArray &path, const QByteArray &json, const QByteArray &headers = {});
    /// A request on a connection of its own.
    static Response ask(int port, const QByteArray &request);
    /// The objects of a stream's `data:` lines, the last one apart when it is "[DONE]".
    static QList<QByteArray> events(const QByteArray &body);

private:
    bool receive();

    int m_socket = -1;
    QByteArray m_input;
};
