// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command.h"
#include "app/cli/numbers.h"
#include "app/cli/options.h"
#include "app/cli/output.h"
#include "engine/api/error.h"
#include "engine/api/self_test.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cstdio>
#include <memory>

namespace cli {
namespace {

Json rowJson(const engine::SelfTestRow &row)
{
    const bool measured = row.skipped.empty() && row.error.empty() && !row.gbps;
    Json json{{"op", row.op},       {"dtype", row.dtype},
              {"shape", row.shape}, {"nmse", measured ? Json(row.nmse) : Json(nullptr)},
              {"limit", row.limit}, {"ok", row.skipped.empty() ? Json(row.ok) : Json(nullptr)}};
    if (row.gbps)
        json["gbps"] = *row.gbps;
    else if (!measured)
        json["reason"] = row.skipped.empty() ? row.error : row.skipped;
    return json;
}

std::string rowText(const engine::SelfTestRow &row)
{
    char line[120];
    std::snprintf(line, sizeof line, "%-6s %-26s %-7s %-12s ",
                  !row.skipped.empty() ? "skip" : (row.ok ? "ok" : "FAILED"), row.op.c_str(), row.dtype.c_str(),
                  row.shape.c_str());
    std::string text = line;
    if (!row.skipped.empty() || !row.error.empty())
        return text + (row.skipped.empty() ? row.error : row.skipped) + "\n";
    if (row.gbps) {
        std::snprintf(line, sizeof line, "%.1f GB/s\n", *row.gbps);
        return text + line;
    }
    std::snprintf(line, sizeof line, "NMSE %.1e, at most %.0e\n", row.nmse, row.limit);
    return text + line;
}

Json totalsJson(const engine::SelfTestTotals &totals)
{
    const auto figure = [](const std::optional<double> &value) { return value ? Json(*value) : Json(nullptr); };
    return Json{{"passed", totals.passed},
                {"failed", totals.failed},
                {"skipped", totals.skipped},
                {"backend", totals.backend},
                {"isa", totals.isa},
                {"copy_gbps", totals.copyGbps},
                {"host_to_device_gbps", figure(totals.toDeviceGbps)},
                {"device_to_host_gbps", figure(totals.fromDeviceGbps)}};
}

std::string totalsText(const engine::SelfTestTotals &totals)
{
    char line[200];
    std::snprintf(line, sizeof line, "%s %s: %d passed, %d failed, %d skipped; copies %.1f GB/s",
                  totals.backend.c_str(), totals.isa.c_str(), totals.passed, totals.failed, totals.skipped,
                  totals.copyGbps);
    std::string text = line;
    if (totals.toDeviceGbps && totals.fromDeviceGbps) {
        std::snprintf(line, sizeof line, ", to the device %.1f GB/s, from it %.1f GB/s", *totals.toDeviceGbps,
                      *totals.fromDeviceGbps);
        text += line;
    }
    return text + "\n";
}

void selfTest(const engine::SelfTestOptions &options, Context &context)
{
    checkDevice(options.device);
    const engine::SelfTestTotals totals = engine::runSelfTest(
        options,
        [&context](const engine::SelfTestRow &row) {
            if (context.json)
                printJson(rowJson(row));
            else
                printText(rowText(row));
        },
        context.stop);
    if (context.json)
        printJson(totalsJson(totals));
    else
        printText(totalsText(totals));
    if (totals.failed > 0)
        throw engine::Error(engine::ErrorCode::Internal,
                            "selftest: " + std::to_string(totals.failed) + " of "
                                + std::to_string(totals.failed + totals.passed)
                                + " operations differ from the reference, wanted none");
}

void showSpeed(const engine::SelfTestOptions &options, Context &context)
{
    checkDevice(options.device);
    int failed = 0;
    engine::measureSpeed(
        options,
        [&](const engine::SpeedRow &row) {
            failed += row.error.empty() ? 0 : 1;
            if (context.json) {
                Json json{{"op", row.op}, {"dtype", row.dtype}, {"shape", row.shape}};
                if (row.error.empty())
                    json.update({{"seconds", row.seconds}, {"gbps", row.gbps}, {"gflops", row.gflops}});
                else
                    json["error"] = row.error;
                return printJson(json);
            }
            char line[160];
            std::snprintf(line, sizeof line, "%-24s %-6s %-16s ", row.op.c_str(), row.dtype.c_str(), row.shape.c_str());
            std::string text = line;
            std::snprintf(line, sizeof line, "%.3f ms, %.1f GB/s, %.1f GFLOP/s", row.seconds * 1e3, row.gbps,
                          row.gflops);
            printText(text + (row.error.empty() ? line : row.error) + "\n");
        },
        context.stop);
    if (failed > 0)
        throw engine::Error(engine::ErrorCode::Internal,
                            "selftest --speed: " + std::to_string(failed) + " operations could not be measured");
}

} // namespace

void addSelfTest(CLI::App &app, const Select &select)
{
    CLI::App *command = app.add_subcommand("selftest", "every operation of a device against the reference");
    const auto options = std::make_shared<engine::SelfTestOptions>();
    command->add_option("--device", options->device, "auto, cpu, cuda:N or simt")->capture_default_str();
    command->add_option("--threads", options->threads, "CPU worker threads (default: cores)")
        ->check(numberFrom(0, 1024));
    command->add_option("--isa", options->isa, "auto, scalar, avx2, avx512, avx512-vnni or amx")->capture_default_str();
    const auto speed = std::make_shared<bool>(false);
    command->add_flag("--speed", *speed, "how fast the operations are that decide about speed, instead of the tests");
    command->add_flag("!--no-deterministic", options->deterministic,
                      "with --speed: allow kernels whose results depend on batch neighbours (cuBLASLt)");
    command->callback([select, options, speed] {
        select([options, speed](Context &context) { (*speed ? showSpeed : selfTest)(*options, context); });
    });
}

} // namespace cli
