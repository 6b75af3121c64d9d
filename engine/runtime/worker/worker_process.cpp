// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/worker/worker_process.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace engine {

namespace {

/// What a new process begins with: nothing of this one but the socket, standard error and the environment.
class SpawnRules {
public:
    explicit SpawnRules(int socket)
    {
        posix_spawn_file_actions_init(&m_files);
        posix_spawn_file_actions_addopen(&m_files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&m_files, socket, workerDescriptor);
        posix_spawn_file_actions_addopen(&m_files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
        posix_spawn_file_actions_addclosefrom_np(&m_files, workerDescriptor + 1);
        posix_spawnattr_init(&m_attributes);
        sigset_t none;
        sigemptyset(&none);
        posix_spawnattr_setsigmask(&m_attributes, &none);
        sigset_t usual;
        sigemptyset(&usual);
        sigaddset(&usual, SIGTERM);
        sigaddset(&usual, SIGPIPE);
        posix_spawnattr_setsigdefault(&m_attributes, &usual);
        posix_spawnattr_setflags(&m_attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    ~SpawnRules()
    {
        posix_spawn_file_actions_destroy(&m_files);
        posix_spawnattr_destroy(&m_attributes);
    }
    SpawnRules(const SpawnRules &) = delete;
    SpawnRules &operator=(const SpawnRules &) = delete;

    /// An errno, 0 for success.
    int spawn(const std::vector<std::string> &command, pid_t &pid) const
    {
        std::vector<char *> words;
        words.reserve(command.size() + 1);
        for (const std::string &word : command)
            words.push_back(const_cast<char *>(word.c_str())); // which exec does not change
        words.push_back(nullptr);
        return posix_spawn(&pid, words[0], &m_files, &m_attributes, words.data(), environ);
    }

private:
    posix_spawn_file_actions_t m_files{};
    posix_spawnattr_t m_attributes{};
};

[[noreturn]] void notStarted(const std::string &program, int error)
{
    throw Error(ErrorCode::NoDevice,
                "a process for the device could not be started from " + program + ": "
                    + std::generic_category().message(error) + "; device cpu needs none");
}

/// Whether it has ended within that time; `status` as waitpid gives it.
bool waitFor(pid_t pid, std::chrono::milliseconds time, int &status)
{
    const auto deadline = std::chrono::steady_clock::now() + time;
    for (;;) {
        const pid_t found = waitpid(pid, &status, WNOHANG);
        if (found == pid || (found < 0 && errno != EINTR))
            return true;
        if (std::chrono::steady_clock::now() >= deadline)
            return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
}

} // namespace

WorkerProcess::WorkerProcess(const std::vector<std::string> &command)
{
    CHECK(!command.empty());
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
        notStarted(command[0], errno);
    m_channel = std::make_unique<WorkerChannel>(ends[0]);
    const WorkerChannel other(ends[1]); // closed here once the child has it
    // A duplicate onto itself would stay closed on exec.
    const int socket = ends[1] == workerDescriptor ? fcntl(ends[1], F_DUPFD_CLOEXEC, workerDescriptor + 1) : ends[1];
    const int error = socket < 0 ? errno : SpawnRules(socket).spawn(command, m_pid);
    if (socket >= 0 && socket != ends[1])
        (void)close(socket);
    if (error != 0)
        notStarted(command[0], error);
}

WorkerProcess::~WorkerProcess()
{
    (void)end();
}

std::string WorkerProcess::end()
{
    m_channel->close();
    if (m_pid <= 0)
        return {};
    const pid_t pid = std::exchange(m_pid, -1);
    constexpr std::chrono::milliseconds patience(2000);
    int status = 0;
    bool byForce = false;
    if (!waitFor(pid, patience, status)) {
        byForce = true;
        (void)kill(pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
    }
    if (byForce)
        return "by force, as it did not answer";
    if (WIFSIGNALED(status))
        return "with signal " + std::to_string(WTERMSIG(status));
    return "with exit code " + std::to_string(WEXITSTATUS(status));
}

} // namespace engine
