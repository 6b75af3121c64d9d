// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command.h"
#include "app/cli/output.h"
#include "engine/api/engine.h"
#include "engine/library/model_store.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cstdio>

namespace cli {
namespace {

template<typename Value> Json optionalJson(const std::optional<Value> &value)
{
    return value ? Json(*value) : Json(nullptr);
}

Json textOrNull(const std::string &text)
{
    return text.empty() ? Json(nullptr) : Json(text);
}

Json deviceJson(const engine::DeviceStats &d, const engine::CollectiveLibrary &nccl)
{
    Json json{{"id", d.id},
              {"name", d.name},
              {"kind", d.kind},
              {"memory_total_bytes", optionalJson(d.memoryTotalBytes)},
              {"memory_free_bytes", optionalJson(d.memoryFreeBytes)},
              {"temperature_c", optionalJson(d.temperatureC)},
              {"power_w", optionalJson(d.powerW)},
              {"power_limit_w", optionalJson(d.powerLimitW)},
              {"utilization", optionalJson(d.utilization)},
              {"clock_mhz", optionalJson(d.clockMhz)},
              {"memory_clock_mhz", optionalJson(d.memoryClockMhz)},
              {"memory_temperature_c", optionalJson(d.memoryTemperatureC)},
              {"pcie_send_bytes_per_second", optionalJson(d.pcieSendBytesPerSecond)},
              {"pcie_receive_bytes_per_second", optionalJson(d.pcieReceiveBytesPerSecond)},
              {"pcie_generation", optionalJson(d.pcieGeneration)},
              {"pcie_lanes", optionalJson(d.pcieLanes)},
              {"throttle_reasons", optionalJson(d.throttleReasons)},
              {"ecc_errors", optionalJson(d.eccErrors)},
              {"xid", optionalJson(d.xid)},
              {"driver", textOrNull(d.driver)},
              {"isa", d.isa},
              {"problem", textOrNull(d.problem)}};
    if (d.kind == "cuda") {
        json["nccl"] = textOrNull(nccl.version);
        json["nccl_problem"] = textOrNull(nccl.problem);
    }
    return json;
}

std::string figure(const std::optional<double> &value, double factor, const char *unit)
{
    if (!value)
        return "n/a";
    char text[48];
    std::snprintf(text, sizeof text, "%.1f %s", *value * factor, unit);
    return text;
}

std::string gibibytes(const std::optional<std::size_t> &bytes)
{
    return figure(bytes ? std::optional<double>(static_cast<double>(*bytes)) : std::nullopt,
                  1.0 / (1024.0 * 1024.0 * 1024.0), "GiB");
}

/// What only GPUs tell.
std::string gpuText(const engine::DeviceStats &d)
{
    constexpr double gibi = 1.0 / (1024.0 * 1024.0 * 1024.0);
    std::string text = "  memory " + figure(d.memoryTemperatureC, 1.0, "C") + ", power limit "
        + figure(d.powerLimitW, 1.0, "W") + ", PCIe " + figure(d.pcieSendBytesPerSecond, gibi, "GiB/s")
        + " to the host, " + figure(d.pcieReceiveBytesPerSecond, gibi, "GiB/s") + " from it\n";
    text += "  ECC errors " + (d.eccErrors ? std::to_string(*d.eccErrors) : "n/a") + ", clocks ";
    if (!d.throttleReasons)
        return text + "n/a\n";
    if (d.throttleReasons->empty())
        text += "not lowered";
    for (const std::string &reason : *d.throttleReasons)
        text += (&reason == d.throttleReasons->data() ? "lowered: " : ", ") + reason;
    return text + (d.xid ? ", Xid " + std::to_string(*d.xid) : "") + "\n";
}

std::string deviceText(const engine::DeviceStats &d)
{
    std::string text = d.id + "  " + d.name + "\n  memory " + gibibytes(d.memoryFreeBytes) + " free of "
        + gibibytes(d.memoryTotalBytes) + ", temperature " + figure(d.temperatureC, 1.0, "C") + ", power "
        + figure(d.powerW, 1.0, "W") + ", busy " + figure(d.utilization, 100.0, "%") + ", clock "
        + figure(d.clockMhz, 1.0, "MHz") + "\n";
    if (!d.isa.empty()) {
        text += "  instruction sets";
        for (const std::string &level : d.isa)
            text += " " + level;
        text += "\n";
    }
    if (d.kind == "cuda")
        text += gpuText(d);
    if (!d.driver.empty())
        text += "  driver " + d.driver + "\n";
    return d.problem.empty() ? text : text + "  " + d.problem + "\n";
}

void listDevices(Context &context)
{
    const engine::CollectiveLibrary nccl = engine::findCollectives();
    for (const engine::DeviceStats &device : engine::readDevices()) {
        if (context.json)
            printJson(deviceJson(device, nccl));
        else
            printText(deviceText(device));
    }
    if (!context.json)
        printText(nccl.problem.empty() ? "NCCL " + nccl.version + "\n" : nccl.problem + "\n");
}

void listModels(Context &context)
{
    const std::vector<engine::InstalledModel> models = engine::listModels();
    for (const engine::InstalledModel &m : models) {
        if (context.json)
            printJson(Json{{"name", m.name},
                           {"path", m.path},
                           {"origin", m.origin},
                           {"format", m.format},
                           {"bytes", m.bytes},
                           {"architecture", m.architecture},
                           {"problem", textOrNull(m.problem)}});
        else
            printText(m.name + "  "
                      + (m.problem.empty() ? m.architecture + ", " + std::to_string(m.bytes) + " bytes" : m.problem)
                      + "  " + m.path + "\n");
    }
    if (models.empty() && !context.quiet)
        std::fprintf(stderr, "no models in %s\n", engine::modelFolder().c_str());
}

} // namespace

void addModels(CLI::App &app, const Select &select)
{
    CLI::App *command = app.add_subcommand("models", "installed models");
    command->callback([select] { select(listModels); });
}

void addDevices(CLI::App &app, const Select &select)
{
    CLI::App *command = app.add_subcommand("devices", "what this machine can compute on");
    command->callback([select] { select(listDevices); });
}

} // namespace cli
