// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/simt/fault_signal.h"

#include "kernels/simt/worker.h"

#include <unistd.h>

#include <cstdio>

namespace simt {

namespace {

void tellAndDie(int number, siginfo_t *signal, void *)
{
    char text[256];
    int used = std::snprintf(text, sizeof text, "emulated kernel: signal %d at address %p", number, signal->si_addr);
    Worker *worker = Worker::current();
    if (worker && worker->inKernel()) {
        const Lane &lane = worker->lane();
        const uint3 &block = lane.block->index;
        used += std::snprintf(text + used, sizeof text - static_cast<std::size_t>(used),
                              " in block (%u,%u,%u) thread (%u,%u,%u)%s, after line %u", block.x, block.y, block.z,
                              lane.index.x, lane.index.y, lane.index.z,
                              lane.fiber.guards(signal->si_addr) ? " (its stack is full)" : "",
                              static_cast<unsigned>(lane.where.line()));
    }
    text[used++] = '\n';
    [[maybe_unused]] const auto written = write(STDERR_FILENO, text, static_cast<std::size_t>(used));
    std::signal(number, SIG_DFL);
    std::raise(number);
}

void watch(int number)
{
    struct sigaction old{};
    if (sigaction(number, nullptr, &old) != 0)
        return;
    const bool withText = (old.sa_flags & SA_SIGINFO) != 0;
    const bool isOwn = withText && old.sa_sigaction == tellAndDie;
    const bool isUsual = !withText && old.sa_handler == SIG_DFL;
    if (isOwn || !(isUsual || underTsan)) // TSan's own handler would run on the stack that is full
        return;
    struct sigaction action{};
    action.sa_sigaction = tellAndDie;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(number, &action, nullptr);
}

} // namespace

FaultSignal::FaultSignal()
{
    if (underAsan)
        return;
    m_stack.resize(underTsan ? 128 * 1024 : 32 * 1024);
    stack_t own{};
    own.ss_sp = m_stack.data();
    own.ss_size = m_stack.size();
    sigaltstack(&own, &m_old);
    watch(SIGSEGV);
    watch(SIGBUS);
}

FaultSignal::~FaultSignal()
{
    if (!m_stack.empty())
        sigaltstack(&m_old, nullptr);
}

} // namespace simt
