// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command.h"
#include "app/cli/output.h"
#include "app/cli/signals.h"
#include "engine/api/worker.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cstdio>
#include <iostream>
#include <new>
#include <optional>
#include <string>

namespace {

constexpr int StopGraceMs = 1500; // work stops at the next step; the contract allows two seconds in all

void addCommands(CLI::App &app, const cli::Select &select)
{
    cli::addInspect(app, select);
    cli::addModels(app, select);
    cli::addTokenize(app, select);
    cli::addDetokenize(app, select);
    cli::addRender(app, select);
    cli::addGenerate(app, select);
    cli::addChat(app, select);
    cli::addLogits(app, select);
    cli::addPerplexity(app, select);
    cli::addServe(app, select);
    cli::addBench(app, select);
    cli::addSelfTest(app, select);
    cli::addLoad(app, select);
    cli::addExperiment(app, select);
    cli::addQuantize(app, select);
    cli::addDevices(app, select);
}

void addCommonFlags(CLI::App &app, cli::Context &context)
{
    for (CLI::App *command : app.get_subcommands({})) {
        command->add_flag("--json", context.json, "one JSON object a line on standard output");
        command->add_flag("-q,--quiet", context.quiet, "nothing but errors on standard error");
        command->add_flag("-v,--verbose", context.verbose, "more detail on standard error");
    }
}

/// The parser takes a command that it does not know for an absent one.
bool knownCommand(const CLI::App &app, int argc, char **argv)
{
    if (argc < 2 || argv[1][0] == '-')
        return true;
    std::string names;
    for (const CLI::App *command : app.get_subcommands([](const CLI::App *) { return true; })) {
        if (command->get_name() == argv[1])
            return true;
        names += (names.empty() ? "" : ", ") + command->get_name();
    }
    cli::printError("command: found \"" + std::string(argv[1]) + "\", wanted one of " + names);
    return false;
}

int run(const cli::Action &action, cli::Context &context)
{
    try {
        action(context);
    } catch (const engine::Error &error) {
        if (error.code() == engine::ErrorCode::Cancelled || context.stop.stop_requested())
            return 130;
        cli::printError(error.what());
        return cli::exitCode(error.code());
    } catch (const std::bad_alloc &) {
        cli::printError("not enough memory for this command");
        return 4;
    } catch (const std::exception &error) {
        cli::printError(error.what());
        return 1;
    }
    return context.stop.stop_requested() ? 130 : 0;
}

} // namespace

int main(int argc, char **argv)
{
    if (const std::optional<int> code = engine::runAsWorker(argc, argv))
        return *code;
    CLI::App app("lathe-cli: runs language models from the command line, with the engine of the Lathe workbench.",
                 "lathe-cli");
    app.set_version_flag("--version", "lathe-cli " LATHE_VERSION);
    app.require_subcommand(1);
    app.failure_message([](const CLI::App *, const CLI::Error &error) {
        return "error: " + std::string(error.what()) + "; see lathe-cli --help\n";
    });

    cli::Context context;
    cli::Action action;
    addCommands(app, [&action](cli::Action chosen) { action = std::move(chosen); });
    addCommonFlags(app, context);
    if (!knownCommand(app, argc, argv))
        return 2;
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
        const int code = app.exit(error) == 0 ? 0 : 2;
        if (std::cout.flush() && std::fflush(stdout) == 0)
            return code;
        cli::printError("standard output could not be written");
        return 1;
    }
    context.stop = cli::stopOnSignals(StopGraceMs);
    return run(action, context);
}
