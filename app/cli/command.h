// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace cli {

/// What every command shares: where results go, how loud it is, and when to stop.
struct Context {
    bool json = false;
    bool quiet = false;
    bool verbose = false;
    std::stop_token stop; ///< requested by SIGINT and SIGTERM
};

/// Adds one subcommand to `app`; `select` is called with its action when the command line names it.
using Action = std::function<void(Context &)>;
using Select = std::function<void(Action)>;

void addInspect(CLI::App &app, const Select &select);
void addModels(CLI::App &app, const Select &select);
void addDevices(CLI::App &app, const Select &select);
void addTokenize(CLI::App &app, const Select &select);
void addDetokenize(CLI::App &app, const Select &select);
void addRender(CLI::App &app, const Select &select);
void addGenerate(CLI::App &app, const Select &select);
void addChat(CLI::App &app, const Select &select);
void addLogits(CLI::App &app, const Select &select);
void addPerplexity(CLI::App &app, const Select &select);
void addServe(CLI::App &app, const Select &select);
void addBench(CLI::App &app, const Select &select);
void addExperiment(CLI::App &app, const Select &select);
void addLoad(CLI::App &app, const Select &select);
void addSelfTest(CLI::App &app, const Select &select);
void addQuantize(CLI::App &app, const Select &select);

} // namespace cli
