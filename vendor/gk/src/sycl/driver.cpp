// A driver library with HIP's interface over SYCL's runtime: ../gpu calls the vendor's library for CUDA and ROCm, and
// this one for Intel's devices (Level Zero, OpenCL). It is a separate library that sycl.c opens at run time, because
// SYCL's runtime is C++ with threads and static initialisers, and a program must start without it. No exception leaves
// it. Results are those of ../gpu/api.h.
#define SYCL_DISABLE_FSYCL_SYCLHPP_WARNING 1
#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include <sycl/sycl.hpp>

#include "args.h"
#include "image.h"
#include "results.h"

#ifdef _WIN32
#define GK_SYCL_EXPORT __declspec(dllexport)
#else
#define GK_SYCL_EXPORT __attribute__((visibility("default")))
#endif

extern "C" const unsigned char gk_sycl_image[];
extern "C" const size_t gk_sycl_image_size;

namespace {

namespace ex = sycl::ext::oneapi::experimental;
using executable = sycl::kernel_bundle<sycl::bundle_state::executable>;
using recording = ex::command_graph<ex::graph_state::modifiable>;
using replay = ex::command_graph<ex::graph_state::executable>;

struct device_entry {
    sycl::device device;
    sycl::context context;
};

// The driver compiles a kernel on first use: a program uses a dozen of the ninety.
struct kernel_entry {
    const gk_sycl_entry *image;
    sycl::context context;
    std::mutex mutex;
    std::optional<sycl::kernel> kernel;
    kernel_entry(const gk_sycl_entry *of, const sycl::context &in) : image(of), context(in) {}

    const sycl::kernel &get() {
        const std::lock_guard<std::mutex> lock(mutex);
        if (!kernel) {
            const std::byte *bytes = reinterpret_cast<const std::byte *>(image + 1);
            auto source = ex::create_kernel_bundle_from_source(context, ex::source_language::spirv,
                                                               std::vector<std::byte>(bytes, bytes + image->bytes));
            kernel.emplace(ex::build(source).ext_oneapi_get_kernel(image->name));
        }
        return *kernel;
    }
};

struct kernel_module {
    std::map<std::string, std::unique_ptr<kernel_entry>> kernels;
};

struct stream_entry {
    sycl::queue queue;
    std::optional<recording> captured;
};

std::vector<device_entry> devices;
thread_local int current = 0;
thread_local std::string last_text;

int fail(int result, const std::string &text) {
    last_text = text;
    return result;
}

// The runtime throws on device errors. This converts them to a result and stores the text for gk_sycl_error_text.
template <class Work> int guarded(const Work &work) noexcept {
    try {
        return work();
    } catch (const sycl::exception &error) {
        const std::error_code code = error.code();
        if (code == sycl::errc::memory_allocation) return fail(GPU_OUT_OF_MEMORY, error.what());
        if (code == sycl::errc::build) return fail(GPU_INVALID_IMAGE, error.what());
        return fail(GPU_UNKNOWN, error.what());
    } catch (const std::bad_alloc &) {
        return fail(GPU_OUT_OF_MEMORY, "out of host memory");
    } catch (const std::exception &error) {
        return fail(GPU_UNKNOWN, error.what());
    } catch (...) {
        return fail(GPU_UNKNOWN, "an exception of unknown kind");
    }
}

// Kernels require sub-groups of 32 lanes and access device memory by address.
bool can_run_the_kernels(sycl::device device) {
    if (!device.is_gpu() && !device.is_cpu()) return false;
    if (!device.has(sycl::aspect::usm_device_allocations) || !device.has(sycl::aspect::fp16)) return false;
    const std::vector<size_t> sizes = device.get_info<sycl::info::device::sub_group_sizes>();
    return std::find(sizes.begin(), sizes.end(), GK_SYCL_SUB_GROUP) != sizes.end() &&
           device.ext_oneapi_can_build(ex::source_language::spirv);
}

// GPUs come before CPUs. A card that is available through both Level Zero and OpenCL is kept once, as Level Zero.
void find_devices() {
    std::vector<sycl::device> zero, other, processors;
    for (const sycl::device &device : sycl::device::get_devices()) {
        if (!can_run_the_kernels(device)) continue;
        if (device.is_cpu()) processors.push_back(device);
        else (device.get_backend() == sycl::backend::ext_oneapi_level_zero ? zero : other).push_back(device);
    }
    if (zero.empty()) zero = other;
    zero.insert(zero.end(), processors.begin(), processors.end());
    devices.clear();
    for (const sycl::device &device : zero) devices.push_back({device, sycl::context(device)});
}

device_entry &at(int device) {
    if (device < 0 || static_cast<size_t>(device) >= devices.size())
        throw sycl::exception(sycl::make_error_code(sycl::errc::invalid), "there is no such device");
    return devices[static_cast<size_t>(device)];
}

void copy_text(char *out, int capacity, const std::string &text) {
    if (capacity <= 0) return;
    const size_t length = std::min(text.size(), static_cast<size_t>(capacity) - 1);
    std::memcpy(out, text.data(), length);
    out[length] = '\0';
}

void *address_of(uint64_t address) { return reinterpret_cast<void *>(static_cast<uintptr_t>(address)); }
sycl::queue &queue_of(void *stream) { return static_cast<stream_entry *>(stream)->queue; }

} // namespace

extern "C" {

GK_SYCL_EXPORT int gk_sycl_init(unsigned) {
    static std::once_flag once;
    return guarded([]() -> int {
        std::call_once(once, find_devices); // again after an exception
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_driver_version(int *version) {
    *version = __LIBSYCL_MAJOR_VERSION * 1000 + __LIBSYCL_MINOR_VERSION * 10;
    return GPU_SUCCESS;
}

GK_SYCL_EXPORT int gk_sycl_device_count(int *count) {
    *count = static_cast<int>(devices.size());
    if (*count > 0) return GPU_SUCCESS;
    return fail(GPU_NO_DEVICE, "SYCL's runtime reports no device that accepts SPIR-V and has f16 and sub-groups of 32 lanes: an Intel GPU needs "
                               "Level Zero (libze_intel_gpu), a processor intel-opencl-rt");
}

GK_SYCL_EXPORT int gk_sycl_device_get(int *device, int ordinal) {
    return guarded([&]() -> int {
        (void)at(ordinal);
        *device = ordinal;
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_device_name(char *name, int capacity, int device) {
    return guarded([&]() -> int {
        copy_text(name, capacity, at(device).device.get_info<sycl::info::device::name>());
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_device_driver(char *text, int capacity, int device) {
    return guarded([&]() -> int {
        const sycl::device &of = at(device).device;
        const char *through = of.get_backend() == sycl::backend::ext_oneapi_level_zero ? "Level Zero " : "OpenCL ";
        copy_text(text, capacity, through + of.get_info<sycl::info::device::driver_version>());
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_device_memory(size_t *bytes, int device) {
    return guarded([&]() -> int {
        *bytes = at(device).device.get_info<sycl::info::device::global_mem_size>();
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_device_pci(char *text, int capacity, int device) {
    return guarded([&]() -> int {
        const sycl::device &of = at(device).device;
        if (!of.has(sycl::aspect::ext_intel_pci_address)) return fail(GPU_INVALID_VALUE, "no PCI address");
        copy_text(text, capacity, of.get_info<sycl::ext::intel::info::device::pci_address>());
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_device_uuid(void *bytes16, int device) {
    return guarded([&]() -> int {
        const sycl::device &of = at(device).device;
        if (!of.has(sycl::aspect::ext_intel_device_info_uuid)) return fail(GPU_INVALID_VALUE, "no UUID");
        const auto uuid = of.get_info<sycl::ext::intel::info::device::uuid>();
        std::memcpy(bytes16, uuid.data(), 16);
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_device_attribute(int *value, int attribute, int device) {
    return guarded([&]() -> int {
        const sycl::device &of = at(device).device;
        switch (attribute) {
        case GPU_ATTRIBUTE_INTEGRATED: *value = of.get_info<sycl::info::device::host_unified_memory>(); break;
        case GPU_ATTRIBUTE_PROCESSOR: *value = of.is_cpu(); break;
        default: return fail(GPU_INVALID_VALUE, "an unknown attribute");
        }
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_device_current(int *device) {
    *device = current;
    return GPU_SUCCESS;
}

GK_SYCL_EXPORT int gk_sycl_device_select(int device) {
    return guarded([&]() -> int {
        (void)at(device);
        current = device;
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_memory_info(size_t *available, size_t *total) {
    return guarded([&]() -> int {
        const sycl::device &of = at(current).device;
        *total = of.get_info<sycl::info::device::global_mem_size>();
        *available = of.has(sycl::aspect::ext_intel_free_memory) ? of.get_info<sycl::ext::intel::info::device::free_memory>() : *total;
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_memory_alloc(uint64_t *address, size_t bytes) {
    return guarded([&]() -> int {
        device_entry &of = at(current);
        void *memory = sycl::malloc_device(bytes, of.device, of.context);
        if (!memory) return fail(GPU_OUT_OF_MEMORY, "out of device memory");
        *address = reinterpret_cast<uintptr_t>(memory);
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_memory_free(uint64_t address) {
    return guarded([&]() -> int {
        sycl::free(address_of(address), at(current).context);
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_memory_zero(uint64_t address, unsigned char value, size_t bytes, void *stream) {
    return guarded([&]() -> int {
        queue_of(stream).memset(address_of(address), value, bytes);
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_copy_up(uint64_t to, const void *from, size_t bytes, void *stream) {
    return guarded([&]() -> int {
        queue_of(stream).memcpy(address_of(to), from, bytes);
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_copy_down(void *to, uint64_t from, size_t bytes, void *stream) {
    return guarded([&]() -> int {
        queue_of(stream).memcpy(to, address_of(from), bytes);
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_stream_create(void **stream, unsigned) {
    return guarded([&]() -> int {
        device_entry &of = at(current);
        const auto rethrow = [](sycl::exception_list errors) {
            for (const std::exception_ptr &error : errors) std::rethrow_exception(error);
        };
        *stream = new stream_entry{sycl::queue(of.context, of.device, rethrow, sycl::property::queue::in_order()), {}};
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_stream_destroy(void *stream) {
    return guarded([&]() -> int {
        delete static_cast<stream_entry *>(stream);
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_stream_wait(void *stream) {
    return guarded([&]() -> int {
        queue_of(stream).wait_and_throw();
        return GPU_SUCCESS;
    });
}

// The image is embedded in this library, so kernels and driver always match.
GK_SYCL_EXPORT int gk_sycl_module_load(void **module, const void *) {
    return guarded([&]() -> int {
        const std::string prefix = "__sycl_kernel_"; // the compiler's prefix for the name of a free function
        auto made = std::make_unique<kernel_module>();
        for (size_t offset = 0; offset < gk_sycl_image_size;) {
            const auto *entry = reinterpret_cast<const gk_sycl_entry *>(gk_sycl_image + offset);
            const std::string name = entry->name;
            const size_t begin = name.compare(0, prefix.size(), prefix) == 0 ? prefix.size() : 0;
            made->kernels[name.substr(begin)] = std::make_unique<kernel_entry>(entry, at(current).context);
            offset += sizeof *entry + entry->bytes;
        }
        (void)made->kernels.at("describe")->get(); // fails here if the device does not accept SPIR-V
        *module = made.release();
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_module_unload(void *module) {
    return guarded([&]() -> int {
        delete static_cast<kernel_module *>(module);
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_module_function(void **function, void *module, const char *name) {
    return guarded([&]() -> int {
        const auto &kernels = static_cast<kernel_module *>(module)->kernels;
        const auto found = kernels.find(name);
        if (found == kernels.end()) return fail(GPU_INVALID_IMAGE, "there is no such kernel");
        *function = found->second.get();
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_launch(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                                  unsigned block_z, unsigned, void *stream, void **parameters, void **) {
    return guarded([&]() -> int {
        const sycl::kernel &kernel = static_cast<kernel_entry *>(function)->get();
        const sycl::range<3> block(block_z, block_y, block_x);
        const sycl::nd_range<3> all(sycl::range<3>(grid_z, grid_y, grid_x) * block, block);
        queue_of(stream).submit([&](sycl::handler &handler) {
            handler.set_arg(0, *static_cast<const gk_gpu_args *>(parameters[0]));
            handler.parallel_for(all, kernel);
        });
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_capture_begin(void *stream, int) {
    return guarded([&]() -> int {
        auto *of = static_cast<stream_entry *>(stream);
        const sycl::device device = of->queue.get_device();
        if (!device.has(sycl::aspect::ext_oneapi_limited_graph)) return fail(GPU_INVALID_VALUE, "this device does not support graphs");
        of->captured.emplace(of->queue.get_context(), device);
        of->captured->begin_recording(of->queue);
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_capture_end(void *stream, void **graph) {
    return guarded([&]() -> int {
        auto *of = static_cast<stream_entry *>(stream);
        of->captured->end_recording(of->queue);
        *graph = new recording(*of->captured);
        of->captured.reset();
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_graph_nodes(void *graph, void **, size_t *count) {
    return guarded([&]() -> int {
        *count = static_cast<recording *>(graph)->get_nodes().size();
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_graph_instantiate(void **executable_graph, void *graph, unsigned long long) {
    return guarded([&]() -> int {
        *executable_graph = new replay(static_cast<recording *>(graph)->finalize());
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_graph_launch(void *executable_graph, void *stream) {
    return guarded([&]() -> int {
        queue_of(stream).ext_oneapi_graph(*static_cast<replay *>(executable_graph));
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_graph_executable_destroy(void *executable_graph) {
    return guarded([&]() -> int {
        delete static_cast<replay *>(executable_graph);
        return GPU_SUCCESS;
    });
}

GK_SYCL_EXPORT int gk_sycl_graph_destroy(void *graph) {
    return guarded([&]() -> int {
        delete static_cast<recording *>(graph);
        return GPU_SUCCESS;
    });
}

// The text of this thread's last failure.
GK_SYCL_EXPORT const char *gk_sycl_error_text(int) { return last_text.c_str(); }
}
