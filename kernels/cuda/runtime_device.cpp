// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/runtime_device.h"

#include "kernels/device_lost.h"

#include <algorithm>
#include <utility>

namespace kernels::cuda {

namespace {

constexpr int leastMajor = 8; // of the compute capability; the kernels are compiled from sm_80 on

// Of cudaError_t.
constexpr int errorMemory = 2;
constexpr int errorNoDriver = 35; // "insufficient", which is also the answer without any
constexpr int errorNoDevice = 100;
constexpr int lostErrors[] = {
    214, // uncorrectable ECC error
    220, // uncorrectable NVLink error
    226, // contained memory error
    700, // illegal address
    702, // launch timed out
    710, // assertion in a kernel
    714, // hardware stack
    715, // illegal instruction
    716, // misaligned address
    717, // invalid address space
    718, // invalid program counter
    719, // launch failure
    721, // tensor memory leak
    911, // external device
    999, // unknown
};

std::string versionText(int version)
{
    return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string capabilityText(const DeviceFacts &facts)
{
    return std::to_string(facts.major) + "." + std::to_string(facts.minor);
}

/// Drivers of one major version serve all libraries of it.
std::string driverProblem(Driver &driver, int version)
{
    const std::string wanted = versionText(driver.libraryVersion() / 1000 * 1000);
    if (version == 0)
        return "no NVIDIA driver was found (libcuda.so.1), wanted one for " + wanted + " or newer";
    if (version / 1000 < driver.libraryVersion() / 1000)
        return "the NVIDIA driver is too old: found one for " + versionText(version) + ", wanted " + wanted
            + " or newer";
    return {};
}

std::string numbered(int index)
{
    return "cuda:" + std::to_string(index);
}

} // namespace

FaultKind faultKind(int error)
{
    if (error == 0)
        return FaultKind::None;
    if (error == errorMemory)
        return FaultKind::OutOfMemory;
    return std::ranges::find(lostErrors, error) != std::end(lostErrors) ? FaultKind::Lost : FaultKind::Other;
}

FoundDevices findDevices(Driver &driver)
{
    FoundDevices found;
    int version = 0;
    if (driver.driverVersion(version) != 0)
        version = 0;
    found.driver = version > 0 ? versionText(version) : std::string();
    found.problem = driverProblem(driver, version);
    if (!found.problem.empty())
        return found;
    int count = 0;
    const int error = driver.deviceCount(count);
    if (error == errorNoDriver || error == errorNoDevice || (error == 0 && count == 0)) {
        found.problem = "the NVIDIA driver (" + found.driver + ") shows no GPU";
        return found;
    }
    if (error != 0) {
        found.problem = "the NVIDIA driver (" + found.driver + ") does not start: " + driver.errorText(error);
        return found;
    }
    for (int index = 0; index < count; ++index) {
        FoundDevice &device = found.devices.emplace_back();
        if (const int fault = driver.deviceFacts(index, device.facts); fault != 0)
            device.problem = "the driver does not tell what it is: " + driver.errorText(fault);
        else if (device.facts.major < leastMajor)
            device.problem = "its compute capability is " + capabilityText(device.facts) + ", wanted at least "
                + std::to_string(leastMajor) + ".0";
    }
    return found;
}

namespace {

/// Calls of one device: errors become exceptions that name it.
class Device {
public:
    Device(std::unique_ptr<Driver> driver, int index)
        : m_driver(std::move(driver))
        , m_index(index)
    {
    }

    [[nodiscard]] Driver &driver() { return *m_driver; }
    /// The device of this thread's next calls. \throws Error
    void use() { check(m_driver->useDevice(m_index), "being opened"); }
    /// \throws Error OutOfMemory, DeviceLost, or Internal
    void check(int error, const std::string &what)
    {
        const FaultKind kind = faultKind(error);
        if (kind == FaultKind::None)
            return;
        const std::string text = m_driver->errorText(error) + " (CUDA error " + std::to_string(error) + ")";
        if (kind != FaultKind::Lost)
            (void)m_driver->lastError(); // told here, and not again by whoever asks next
        if (kind == FaultKind::Lost)
            throw DeviceLost("device " + numbered(m_index) + " was lost in " + what + ": " + text);
        if (kind == FaultKind::OutOfMemory)
            throw Error(ErrorCode::OutOfMemory,
                        "not enough memory on device " + numbered(m_index) + " for " + what + ": "
                            + std::to_string(freeBytes()) + " bytes are free");
        throw Error(ErrorCode::Internal, "device " + numbered(m_index) + " failed in " + what + ": " + text);
    }
    [[nodiscard]] std::size_t freeBytes()
    {
        std::size_t free = 0;
        std::size_t total = 0;
        return m_driver->memory(free, total) == 0 ? free : 0;
    }

private:
    std::unique_ptr<Driver> m_driver;
    int m_index;
};

enum class Place { Device, Pinned };

class DriverBuffer final : public Buffer {
public:
    DriverBuffer(std::shared_ptr<Device> device, Place place, std::size_t bytes)
        : m_device(std::move(device))
        , m_place(place)
        , m_bytes(bytes)
    {
        const std::size_t asked = std::max<std::size_t>(bytes, 1);
        const bool pinned = place == Place::Pinned;
        Driver &driver = m_device->driver();
        m_device->use();
        m_device->check(pinned ? driver.allocatePinned(m_memory, asked) : driver.allocate(m_memory, asked),
                        std::to_string(bytes) + " bytes" + (pinned ? " that it can reach on the host" : ""));
        if (pinned) {
            std::fill_n(static_cast<std::byte *>(m_memory), asked, std::byte{});
            return;
        }
        const int error = driver.zero(m_memory, asked);
        if (error != 0)
            driver.free(std::exchange(m_memory, nullptr));
        m_device->check(error, "setting " + std::to_string(bytes) + " bytes to zero");
    }
    /// Errors are left alone: a device that is lost has freed everything.
    ~DriverBuffer() override
    {
        Driver &driver = m_device->driver();
        if (m_place == Place::Pinned)
            driver.freePinned(m_memory);
        else
            driver.free(m_memory);
    }
    DriverBuffer(const DriverBuffer &) = delete;
    DriverBuffer &operator=(const DriverBuffer &) = delete;
    std::byte *data() override { return static_cast<std::byte *>(m_memory); }
    std::size_t bytes() const override { return m_bytes; }

private:
    std::shared_ptr<Device> m_device;
    Place m_place;
    std::size_t m_bytes;
    void *m_memory = nullptr;
};

class DriverGraph final : public Graph {
public:
    /// Of what the stream has captured. \throws Error
    DriverGraph(std::shared_ptr<Device> device, StreamHandle stream)
        : m_device(std::move(device))
    {
        Driver &driver = m_device->driver();
        GraphHandle graph = nullptr;
        m_device->check(driver.endCapture(stream, graph), "capturing a step");
        const int error = driver.instantiate(m_instance, graph);
        driver.destroyGraph(graph);
        m_device->check(error, "making a graph of a step");
    }
    /// Errors are left alone, as of buffers.
    ~DriverGraph() override { m_device->driver().destroyInstance(m_instance); }
    DriverGraph(const DriverGraph &) = delete;
    DriverGraph &operator=(const DriverGraph &) = delete;
    void launch(StreamHandle stream) const
    {
        m_device->check(m_device->driver().launchGraph(m_instance, stream), "launching the graph of a step");
    }

private:
    std::shared_ptr<Device> m_device;
    GraphInstanceHandle m_instance = nullptr;
};

class DeviceRuntime final : public Runtime {
public:
    DeviceRuntime(std::unique_ptr<Driver> driver, int index, const DeviceFacts &facts)
        : m_device(std::make_shared<Device>(std::move(driver), index))
        , m_name("sm_" + std::to_string(facts.major) + std::to_string(facts.minor))
    {
        m_device->use();
    }

    std::string_view name() const override { return m_name; }
    std::unique_ptr<Buffer> allocate(std::size_t bytes) override
    {
        return std::make_unique<DriverBuffer>(m_device, Place::Device, bytes);
    }
    std::unique_ptr<Buffer> allocatePinned(std::size_t bytes) override
    {
        return std::make_unique<DriverBuffer>(m_device, Place::Pinned, bytes);
    }
    std::size_t freeBytes() const override
    {
        m_device->use();
        return m_device->freeBytes();
    }

    StreamHandle makeStream() override
    {
        StreamHandle stream = nullptr;
        m_device->use();
        m_device->check(m_device->driver().makeStream(stream), "making a stream");
        return stream;
    }
    void destroyStream(StreamHandle stream) override { m_device->driver().destroyStream(stream); }
    void synchronize(StreamHandle stream) override
    {
        m_device->use();
        m_device->check(m_device->driver().synchronize(stream), "the work of a step");
        m_device->check(m_device->driver().lastError(), "the work of a step");
    }
    void copy(const void *from, void *to, std::size_t bytes, StreamHandle stream) override
    {
        if (bytes == 0)
            return;
        m_device->use();
        m_device->check(m_device->driver().copy(from, to, bytes, stream), copyOf(bytes));
    }
    void copyNow(const void *from, void *to, std::size_t bytes) override
    {
        if (bytes == 0)
            return;
        m_device->use();
        m_device->check(m_device->driver().synchronizeDevice(), "work before a copy");
        m_device->check(m_device->driver().copyNow(from, to, bytes), copyOf(bytes));
    }

    void beginCapture(StreamHandle stream) override
    {
        m_device->use();
        m_device->check(m_device->driver().beginCapture(stream), "beginning to capture a step");
    }
    std::unique_ptr<Graph> endCapture(StreamHandle stream) override
    {
        return std::make_unique<DriverGraph>(m_device, stream);
    }
    void abandonCapture(StreamHandle stream) override
    {
        Driver &driver = m_device->driver();
        GraphHandle graph = nullptr;
        if (driver.endCapture(stream, graph) == 0)
            driver.destroyGraph(graph);
        else
            (void)driver.lastError();
    }
    void launch(const Graph &graph, StreamHandle stream) override
    {
        m_device->use();
        dynamic_cast<const DriverGraph &>(graph).launch(stream);
    }

    void checkDevice() override
    {
        if (const int error = m_device->driver().lastError(); faultKind(error) == FaultKind::Lost)
            m_device->check(error, "a launch");
    }

private:
    static std::string copyOf(std::size_t bytes) { return "a copy of " + std::to_string(bytes) + " bytes"; }

    std::shared_ptr<Device> m_device;
    std::string m_name;
};

} // namespace

DeviceFacts requireDevice(Driver &driver, int index)
{
    const FoundDevices found = findDevices(driver);
    const std::string name = "device " + numbered(index);
    const auto count = static_cast<int>(found.devices.size());
    if (!found.problem.empty())
        throw Error(ErrorCode::NoDevice, name + " is not available: " + found.problem);
    if (index < 0 || index >= count)
        throw Error(ErrorCode::NoDevice,
                    name + " does not exist: found " + std::to_string(count)
                        + (count == 1 ? " device, cuda:0" : " devices, the last is " + numbered(count - 1)));
    const FoundDevice &device = found.devices[static_cast<std::size_t>(index)];
    if (!device.problem.empty())
        throw Error(ErrorCode::NoDevice, name + " (" + device.facts.name + ") cannot be used: " + device.problem);
    return device.facts;
}

std::unique_ptr<Runtime> makeDeviceRuntime(std::unique_ptr<Driver> driver, int index)
{
    const DeviceFacts facts = requireDevice(*driver, index);
    try {
        return std::make_unique<DeviceRuntime>(std::move(driver), index, facts);
    } catch (const Error &error) {
        throw Error(ErrorCode::NoDevice,
                    "device " + numbered(index) + " (" + facts.name + ") cannot be used: " + error.what());
    }
}

} // namespace kernels::cuda
