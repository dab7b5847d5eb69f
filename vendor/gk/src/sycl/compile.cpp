// Compiles kernels.cu to SPIR-V during the build of gk, with the compiler in SYCL's runtime (libsycl-jit): icpx is not
// needed.
//   gk-sycl-compile KERNELS OUTPUT OPTION...
// Each kernel becomes a separate module (image.h), so that a program waits for the driver's compiler only for the
// kernels that it uses.
#define SYCL_DISABLE_FSYCL_SYCLHPP_WARNING 1
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <sycl/sycl.hpp>

#include "image.h"

namespace {

namespace ex = sycl::ext::oneapi::experimental;

struct failure {
    std::string text;
};

std::string read(const char *path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    if (!file) throw failure{std::string("cannot read ") + path};
    return text.str();
}

// The runtime compiles for an existing device; only the intermediate SPIR-V is stored, which is valid for all devices.
sycl::device any_compiling_device() {
    std::string seen;
    for (sycl::device device : sycl::device::get_devices()) {
        if (device.ext_oneapi_can_build(ex::source_language::sycl) && device.ext_oneapi_can_build(ex::source_language::spirv)) return device;
        seen += (seen.empty() ? "" : ", ") + device.get_info<sycl::info::device::name>();
    }
    throw failure{"no SYCL device of this machine can compile SYCL (found: " + (seen.empty() ? std::string("none") : seen) +
                  "): Intel's OpenCL runtime for processors (intel-opencl-rt) is enough"};
}

// The names of the entry points of a SPIR-V module: OpEntryPoint is the model, an id, then the name.
std::vector<std::string> entry_points(const std::vector<std::byte> &module) {
    constexpr size_t header_words = 5;
    constexpr uint32_t op_entry_point = 15, magic = 0x07230203;
    std::vector<uint32_t> words(module.size() / 4);
    std::memcpy(words.data(), module.data(), words.size() * 4);
    if (words.size() < header_words || words[0] != magic) throw failure{"the compiler's output is not SPIR-V"};
    std::vector<std::string> names;
    for (size_t at = header_words; at < words.size();) {
        const uint32_t count = words[at] >> 16;
        if (count == 0 || count > words.size() - at) throw failure{"the compiler's output is damaged SPIR-V"};
        if ((words[at] & 0xffff) == op_entry_point && count > 3) {
            const char *text = reinterpret_cast<const char *>(&words[at + 3]);
            names.emplace_back(text, strnlen(text, (count - 3) * 4));
        }
        at += count;
    }
    return names;
}

// Sorted by name: the compiler's order changes from run to run.
void write(const char *path, const std::vector<std::vector<std::byte>> &modules) {
    std::map<std::string, const std::vector<std::byte> *> by_name;
    for (const std::vector<std::byte> &module : modules) {
        const std::vector<std::string> names = entry_points(module);
        if (names.size() != 1) throw failure{"a module with " + std::to_string(names.size()) + " kernels instead of one"};
        if (names[0].size() >= sizeof gk_sycl_entry::name) throw failure{"the name of a kernel is too long: " + names[0]};
        if (!by_name.emplace(names[0], &module).second) throw failure{"two kernels are named " + names[0]};
    }
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    for (const auto &[name, module] : by_name) {
        gk_sycl_entry entry{};
        std::memcpy(entry.name, name.data(), name.size());
        entry.bytes = static_cast<uint32_t>(module->size());
        file.write(reinterpret_cast<const char *>(&entry), sizeof entry);
        file.write(reinterpret_cast<const char *>(module->data()), static_cast<std::streamsize>(module->size()));
    }
    file.close();
    if (!file) throw failure{std::string("cannot write ") + path};
}

void compile(const char *source, const char *output, std::vector<std::string> options) {
    options.emplace_back("-fsycl-device-code-split=per_kernel");
    const sycl::context context(any_compiling_device());
    auto bundle = ex::create_kernel_bundle_from_source(context, ex::source_language::sycl, read(source));
    std::string log;
    auto built = ex::build(bundle, ex::properties{ex::build_options{options}, ex::save_log{&log}});
    if (!log.empty()) std::fprintf(stderr, "%s\n", log.c_str());
    std::vector<std::vector<std::byte>> modules;
    for (const auto &image : built) modules.push_back(image.ext_oneapi_get_backend_content());
    write(output, modules);
}

} // namespace

int main(int count, char **arguments) {
    if (count < 3) {
        std::fprintf(stderr, "usage: gk-sycl-compile KERNELS OUTPUT OPTION...\n");
        return 2;
    }
    try {
        compile(arguments[1], arguments[2], std::vector<std::string>(arguments + 3, arguments + count));
        return 0;
    } catch (const failure &failed) {
        std::fprintf(stderr, "gk-sycl-compile: %s\n", failed.text.c_str());
    } catch (const std::exception &failed) {
        std::fprintf(stderr, "gk-sycl-compile: %s\n", failed.what());
    }
    std::remove(arguments[2]);
    return 1;
}
