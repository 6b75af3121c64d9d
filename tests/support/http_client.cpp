// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

QByteArray HttpClient::Response::header(const QByteArray &name) const
{
    for (const QByteArray &line : head.split('\n'))
        if (line.toLower().startsWith(name.toLower() + ':'))
            return line.mid(name.size() + 1).trimmed();
    return {};
}

HttpClient::HttpClient(int port, int timeoutMs, int receiveBuffer)
    : m_socket(::socket(AF_INET, SOCK_STREAM, 0))
{
    if (receiveBuffer > 0)
        ::setsockopt(m_socket, SOL_SOCKET, SO_RCVBUF, &receiveBuffer, sizeof receiveBuffer);
    const timeval limit{timeoutMs / 1000, (timeoutMs % 1000) * 1000};
    ::setsockopt(m_socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(m_socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(m_socket, reinterpret_cast<const sockaddr *>(&address), sizeof address) != 0)
        close();
}

HttpClient::~HttpClient()
{
    close();
}

void HttpClient::close()
{
    if (m_socket >= 0)
        ::close(std::exchange(m_socket, -1));
}

void HttpClient::finishSending()
{
    ::shutdown(m_socket, SHUT_WR);
}

void HttpClient::reset()
{
    const linger hard{1, 0};
    ::setsockopt(m_socket, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close();
}

bool HttpClient::send(const QByteArray &bytes)
{
    for (qsizetype sent = 0; sent < bytes.size();) {
        const ssize_t count =
            ::send(m_socket, bytes.data() + sent, static_cast<std::size_t>(bytes.size() - sent), MSG_NOSIGNAL);
        if (count <= 0)
            return false;
        sent += count;
    }
    return true;
}

bool HttpClient::receive()
{
    char buffer[65536];
    const ssize_t count = m_socket < 0 ? -1 : ::recv(m_socket, buffer, sizeof buffer, 0);
    if (count > 0)
        m_input.append(buffer, count);
    return count > 0;
}

bool HttpClient::readUntil(const QByteArray &text)
{
    while (!m_input.contains(text))
        if (!receive())
            return false;
    return true;
}

bool HttpClient::isClosedByServer()
{
    char buffer[65536];
    while (true) {
        const ssize_t count = ::recv(m_socket, buffer, sizeof buffer, 0);
        if (count == 0 || (count < 0 && errno == ECONNRESET))
            return true;
        if (count < 0)
            return false;
    }
}

HttpClient::Response HttpClient::read()
{
    Response response;
    if (!readUntil("\r\n\r\n"))
        return response;
    const qsizetype end = m_input.indexOf("\r\n\r\n");
    response.head = m_input.left(end);
    m_input.remove(0, end + 4);
    response.status = response.head.split(' ').value(1).toInt();
    const QByteArray length = response.header("Content-Length");
    if (!length.isEmpty()) {
        while (m_input.size() < length.toLongLong() && receive()) {
        }
        response.body = m_input.left(length.toLongLong());
        m_input.remove(0, response.body.size());
        return response;
    }
    if (response.header("Transfer-Encoding") != "chunked") {
        while (receive()) {
        }
        response.body = std::exchange(m_input, {});
        return response;
    }
    while (true) {
        while (!m_input.contains("\r\n") && receive()) {
        }
        const qsizetype line = m_input.indexOf("\r\n");
        const qsizetype size = line < 0 ? 0 : m_input.left(line).toLongLong(nullptr, 16);
        while (m_input.size() < line + size + 4 && receive()) {
        }
        response.body += m_input.mid(line + 2, size);
        m_input.remove(0, line + size + 4);
        if (size == 0)
            return response;
    }
}

QByteArray HttpClient::get(const QByteArray &path, const QByteArray &headers)
{
    return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n";
}

QByteArray HttpClient::post(const QByteArray &path, const QByteArray &json, const QByteArray &headers)
{
    return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
        + QByteArray::number(json.size()) + "\r\n" + headers + "\r\n" + json;
}

HttpClient::Response HttpClient::ask(int port, const QByteArray &request)
{
    HttpClient client(port);
    client.send(request);
    return client.read();
}

QList<QByteArray> HttpClient::events(const QByteArray &body)
{
    QList<QByteArray> events;
    for (const QByteArray &line : body.split('\n'))
        if (line.startsWith("data: "))
            events += line.mid(6);
    return events;
}
