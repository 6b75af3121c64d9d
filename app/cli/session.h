// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/cli/command.h"
#include "app/cli/options.h"
#include "app/cli/output_file.h"
#include "engine/api/engine.h"
#include "engine/lab/request_runner.h"

#include <memory>
#include <optional>
#include <vector>

namespace cli {

using engine::RequestResult;

/// The file of `--stats`, opened before the work so that a wrong place is told at once.
class StatsFile {
public:
    /// \throws Error IoError
    explicit StatsFile(const std::optional<std::string> &path);
    /// `worker_peak_rss_bytes` is that of the largest worker that has ended. \throws Error IoError
    void write(const engine::EngineTotals &totals);

private:
    std::optional<OutputFile> m_file;
};

/// Prints the model's warnings unless quiet and, with `-v`, how it runs; both on standard error.
void tellOfModel(const engine::ModelInfo &info, const Context &context);

/// Loads the model with progress on standard error and tells of it. \throws Error as the engine reports it, or
/// Cancelled
engine::ModelInfo loadModel(engine::RequestRunner &runner, const ModelOptions &options,
                            const engine::EngineConfig &config, const Context &context);

/// Tells, on standard error, of events that a user should hear of: files that change, devices that fail.
void warnOf(const engine::Event &event);

/// A loaded model behind the public engine, for one command.
class Session {
public:
    /// Loads the model with progress on standard error. \throws Error as the engine reports it, or Cancelled
    Session(const ModelOptions &options, const engine::EngineConfig &config, const Context &context);

    [[nodiscard]] const engine::ModelInfo &info() const { return m_info; }
    [[nodiscard]] engine::Engine &engine() { return *m_engine; }
    [[nodiscard]] engine::RequestRunner &runner() { return *m_runner; }

    /// Submits all at once and returns when every one has ended; a stop request cancels them all.
    void run(std::vector<engine::Request> requests, const engine::RequestRunner::OnText &onText,
             const engine::RequestRunner::OnFinished &onFinished);

    /// Ends the engine and writes its totals to the file of `--stats`. Nothing is called after it. \throws Error
    /// IoError
    void finish();

private:
    StatsFile m_stats;
    const Context &m_context;
    std::unique_ptr<engine::Engine> m_engine;
    std::unique_ptr<engine::RequestRunner> m_runner;
    engine::ModelInfo m_info;
};

} // namespace cli
