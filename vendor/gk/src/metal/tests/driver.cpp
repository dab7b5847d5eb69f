// Emulates the part of Objective-C and Metal that the host uses, for tests: objects with reference counts and pools,
// selectors, a message function that passes every argument unchanged, and kernels that a C++ compiler builds from the
// source text, to run on the emulator of tests/emulation. It is stricter than the real ones. These end the test: a
// message to a deallocated object or to one that does not understand it, an autoreleased object without a pool, an
// encoder that is not ended, a leak. Work only starts when something waits for it, fresh memory holds NaN, and an
// access past the end of a buffer hits a guard page.
//
// GK_EMULATE_METAL= injects a fault: no-device, old (GPU), intel, no-queue, no-memory, no-compile, no-function,
// no-pipeline, narrow (simdgroups of 16), few-threads, no-commands, no-encoder, lost. old-system knows no math mode and
// only one device, which is not a fault.
#include <dlfcn.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>
#include <string>
#include <vector>

#include "emulator.h"

namespace {

[[noreturn]] void misuse(const char *what, const char *detail) {
    fprintf(stderr, "emulated Metal: %s: %s\n", what, detail);
    abort();
}

bool fault(const char *name) {
    const char *text = getenv("GK_EMULATE_METAL");
    return text && strcmp(text, name) == 0;
}

// ---- objects ----

enum kind { CLASS_STRING, CLASS_OPTIONS, CLASS_PROCESS, PROCESS, STRING, ERROR, OPTIONS, DEVICE, ARRAY, QUEUE, BUFFER,
            LIBRARY, FUNCTION, PIPELINE, COMMANDS, ENCODER };
const char *const KIND_NAMES[] = {"NSString", "MTLCompileOptions", "NSProcessInfo", "process info", "string", "error",
                                  "compile options", "device", "array", "command queue", "buffer", "library", "function",
                                  "pipeline", "command buffer", "encoder"};

struct object {
    explicit object(kind of) : what(of) { live().insert(this); }
    virtual ~object() { live().erase(this); }
    static std::set<object *> &live() {
        static std::set<object *> *all = new std::set<object *>; // must outlive functions that run at exit
        return *all;
    }
    kind what;
    long references = 1;
};

void drop(object *which) {
    if (--which->references == 0) delete which;
}

object *keep(object *which) {
    if (which) ++which->references;
    return which;
}

std::vector<std::vector<object *>> pools;

template <typename T> T *autoreleased(T *which) {
    if (pools.empty()) misuse("autoreleased without a pool", KIND_NAMES[which->what]);
    pools.back().push_back(which);
    return which;
}

struct string : object {
    explicit string(std::string of) : object(STRING), text(std::move(of)) {}
    std::string text;
};

struct error : object {
    explicit error(std::string of) : object(ERROR), text(std::move(of)) {}
    std::string text;
};

struct options : object {
    options() : object(OPTIONS) {}
    bool safe = false;
};

struct array : object {
    array() : object(ARRAY) {}
    ~array() override {
        for (object *one : all) drop(one);
    }
    std::vector<object *> all;
};

size_t allocated;

struct buffer : object {
    explicit buffer(size_t length) : object(BUFFER), bytes(length) {
        const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        mapped = (bytes + page - 1) / page * page + page;
        void *memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) misuse("mmap", "no memory");
        mapping = static_cast<unsigned char *>(memory);
        memset(mapping, 0xff, mapped - page);
        if (mprotect(mapping + mapped - page, page, PROT_NONE) != 0) abort();
        contents = mapping + mapped - page - (bytes + 63) / 64 * 64;
        emulator::watch_memory(reinterpret_cast<uint64_t>(contents), bytes);
        allocated += bytes;
    }
    ~buffer() override {
        emulator::forget_memory(reinterpret_cast<uint64_t>(contents));
        allocated -= bytes;
        munmap(mapping, mapped);
    }
    size_t bytes, mapped;
    unsigned char *mapping, *contents;
};

struct library : object {
    explicit library(void *of) : object(LIBRARY), handle(of) {}
    void *handle; // stays loaded: another library with the same text is the same file
};

struct function : object {
    function(void *of, std::string called) : object(FUNCTION), handle(of), name(std::move(called)) {}
    void *handle;
    std::string name;
};

// Kept for each function permanently: the emulator refers to the kernels that it has run.
struct loaded {
    gk_metal_function body;
    emulator::kernel *kernel;
    char *shared_begin, *shared_end;
};

struct pipeline : object {
    explicit pipeline(loaded of) : object(PIPELINE), code(of) {}
    loaded code;
};

struct dispatch {
    pipeline *code;
    gk_gpu_args args;
    emulator::index3 grid, block;
};

struct commands : object {
    commands() : object(COMMANDS) {}
    ~commands() override {
        for (object *one : kept) drop(one);
    }
    std::vector<dispatch> all;
    std::vector<object *> kept; // objects that the dispatches use
    bool open = false;          // an encoder is active
    long status = 0;
    std::string failure;
};

struct queue : object {
    queue() : object(QUEUE) {}
    ~queue() override;
    std::vector<commands *> committed;
};

struct encoder : object {
    explicit encoder(commands *to) : object(ENCODER), target(to) {}
    ~encoder() override {
        if (!ended) misuse("an encoder is released", "it has not been ended");
    }
    commands *target;
    bool ended = false;
    pipeline *code = nullptr;
    dispatch next = {};
    size_t bytes = 0;
};

object class_string(CLASS_STRING), class_options(CLASS_OPTIONS), class_process(CLASS_PROCESS), process(PROCESS), gpu(DEVICE);

const char *name_if(object *one) {
    const kind what = one->what;
    return what >= STRING && what != DEVICE ? KIND_NAMES[what] : nullptr;
}

// The last device is closed: all objects of the backend must be gone. The queue itself is being deleted.
queue::~queue() {
    bool last = true;
    for (object *one : live()) last = last && (one == this || one->what != QUEUE);
    for (object *one : live())
        if (last && one != this && name_if(one)) misuse("still alive when the queue ends", name_if(one));
}

__attribute__((destructor)) void look_for_leaks() {
    for (object *one : object::live())
        if (name_if(one)) {
            fprintf(stderr, "emulated Metal: leaked: %s\n", name_if(one));
            _exit(70);
        }
    if (!pools.empty() || gpu.references != 1) {
        fprintf(stderr, "emulated Metal: %zu pools are open, the device has %ld owners\n", pools.size(), gpu.references);
        _exit(70);
    }
}

// ---- compiling ----

uint64_t hash_of(const std::string &text) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
    return hash;
}

std::string contents_of(const std::string &path) {
    std::string text;
    FILE *file = fopen(path.c_str(), "rb");
    if (!file) return text;
    char part[4096];
    for (size_t n; (n = fread(part, 1, sizeof part, file)) != 0;) text.append(part, n);
    fclose(file);
    return text;
}

// GK_METAL_CXX, _FLAGS, _SHIM: the compiler, its flags, the folder with the metal_stdlib of the tests; GK_METAL_CACHE:
// the folder for compiled kernels. Returns NULL, with the log, if it does not compile.
void *compile(const std::string &source, std::string &log) {
    Dl_info self;
    if (!dladdr(reinterpret_cast<void *>(&hash_of), &self)) misuse("dladdr", "the path of the emulated Metal is unknown");
    const std::string text = "#include <metal_stdlib>\nextern \"C\" {\n" + source + "}\n" + // only the kernels are needed
                             "extern \"C\" char __start_gk_shared[] __attribute__((weak, visibility(\"hidden\")));\n"
                             "extern \"C\" char __stop_gk_shared[] __attribute__((weak, visibility(\"hidden\")));\n"
                             "extern \"C\" char *gk_shared_begin() { return __start_gk_shared; }\n"
                             "extern \"C\" char *gk_shared_end() { return __stop_gk_shared; }\n";
    static const std::string shim = contents_of(GK_METAL_SHIM "/metal_stdlib");
    char name[64];
    snprintf(name, sizeof name, "/%016llx", static_cast<unsigned long long>(hash_of(text + shim + GK_METAL_FLAGS)));
    const std::string base = GK_METAL_CACHE + std::string(name), made = base + ".so";
    if (access(made.c_str(), R_OK) != 0) {
        const std::string mine = base + "." + std::to_string(getpid());
        mkdir(GK_METAL_CACHE, 0777);
        FILE *file = fopen((mine + ".cpp").c_str(), "wb");
        if (!file || fwrite(text.data(), text.size(), 1, file) != 1 || fclose(file) != 0) misuse("writing", mine.c_str());
        const std::string command = std::string(GK_METAL_CXX " " GK_METAL_FLAGS " -I" GK_METAL_SHIM " -shared -o '") + mine + ".so' '" + mine +
                                    ".cpp' '" + self.dli_fname + "' 2>'" + mine + ".log'";
        const bool done = system(command.c_str()) == 0;
        log = contents_of(mine + ".log");
        if (done && rename((mine + ".so").c_str(), made.c_str()) != 0) misuse("renaming", mine.c_str());
        unlink((mine + ".log").c_str());
        unlink((mine + ".cpp").c_str());
        if (!done) return nullptr;
    }
    void *handle = dlopen(made.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) log = dlerror();
    return handle;
}

void run_kernel(const gk_gpu_args &g) {
    const gk_metal_uint3 group = {blockIdx.x, blockIdx.y, blockIdx.z};
    const unsigned int self = threadIdx.x;
    g.function(g.operand[0], g.operand[1], g.operand[2], g.operand[3], g.operand[4],
               reinterpret_cast<unsigned int *>(g.operand[5]), g.bytes, group, self, self % GK_WARP, self / GK_WARP);
}

loaded load(const function &which) {
    static std::vector<loaded> known;
    typedef char *(*range_function)();
    loaded one;
    one.body = reinterpret_cast<gk_metal_function>(dlsym(which.handle, which.name.c_str()));
    for (const loaded &other : known)
        if (other.body == one.body) return other;
    one.kernel = new emulator::kernel(strdup(which.name.c_str()), 1024, run_kernel);
    one.shared_begin = reinterpret_cast<range_function>(dlsym(which.handle, "gk_shared_begin"))();
    one.shared_end = reinterpret_cast<range_function>(dlsym(which.handle, "gk_shared_end"))();
    if (one.shared_end - one.shared_begin > 32 << 10) misuse("more than 32 KiB of threadgroup memory", which.name.c_str());
    known.push_back(one);
    return one;
}

// ---- running ----

void execute(commands *which) {
    if (fault("lost")) which->failure = "Caused GPU Hang Error";
    for (const dispatch &one : which->all) {
        if (!which->failure.empty()) break;
        emulator::shared_memory(one.code->code.shared_begin, one.code->code.shared_end);
        const char *wrong = emulator::launch(*one.code->code.kernel, one.grid, one.block, one.args);
        if (wrong) which->failure = wrong;
    }
    which->status = which->failure.empty() ? 4 : 5;
}

// ---- methods: (receiver, selector, arguments) ----

typedef uintptr_t word;
struct size {
    word width, height, depth;
};

object *m_retain(object *self, const char *) { return keep(self); }
void m_release(object *self, const char *) { drop(self); }

object *m_string(object *, const char *, const char *text) { return autoreleased(new string(text)); }
const char *m_utf8(string *self, const char *) { return self->text.c_str(); }
object *m_description(error *self, const char *) { return autoreleased(new string(self->text)); }
object *m_process(object *, const char *) { return &process; }
object *m_system(object *, const char *) { return autoreleased(new string("Version 15.0 (emulated)")); }
object *m_alloc_options(object *, const char *) { return new options; }
object *m_init(object *self, const char *) { return self; }
void m_math_mode(options *self, const char *, intptr_t mode) { self->safe = mode == 0; }
void m_math_functions(options *, const char *, intptr_t functions) {
    if (functions != 1) misuse("math functions", "are not the precise ones");
}
void m_fast_math(options *self, const char *, signed char fast) { self->safe = !fast; }

word m_count(array *self, const char *) { return self->all.size(); }
object *m_element(array *self, const char *, word index) {
    if (index >= self->all.size()) misuse("objectAtIndex:", "past the end");
    return self->all[index];
}

object *m_device_name(object *, const char *) { return autoreleased(new string("emulated Apple GPU")); }
signed char m_family(object *, const char *, intptr_t family) {
    const intptr_t newest = fault("old") ? 1006 : fault("intel") ? 0 : 1009;
    return family > 1000 && family <= newest;
}
signed char m_unified(object *, const char *) { return 1; }
signed char m_low_power(object *, const char *) { return 0; }
word m_registry(object *, const char *) { return 0x1234; }
word m_working_set(object *, const char *) { return static_cast<word>(1) << 30; }
word m_allocated(object *, const char *) { return allocated; }
word m_max_buffer(object *, const char *) { return static_cast<word>(512) << 20; }
word m_threadgroup_memory(object *, const char *) { return 32 << 10; }
object *m_new_queue(object *, const char *) { return fault("no-queue") ? nullptr : new queue; }
object *m_new_buffer(object *, const char *, word bytes, word mode) {
    if (mode != 0) misuse("newBufferWithLength:options:", "not shared memory");
    if (bytes == 0) misuse("newBufferWithLength:options:", "no bytes");
    if (fault("no-memory") || bytes > (static_cast<word>(1) << 30) - allocated) return nullptr;
    return new buffer(bytes);
}
object *m_new_library(object *, const char *, string *source, options *how, error **failure) {
    if (!how || !how->safe) misuse("newLibraryWithSource:options:error:", "fast math is on");
    std::string log;
    void *handle = compile(fault("no-compile") ? source->text + "\n#error no such kernel\n" : source->text, log);
    if (handle) return new library(handle);
    if (failure) *failure = autoreleased(new error(log));
    return nullptr;
}
object *m_new_function(library *self, const char *, string *name) {
    if (fault("no-function") || !dlsym(self->handle, name->text.c_str())) return nullptr;
    return new function(self->handle, name->text);
}
object *m_new_pipeline(object *, const char *, function *of, error **failure) {
    if (!fault("no-pipeline")) return new pipeline(load(*of));
    if (failure) *failure = autoreleased(new error("Compiler encountered an internal error"));
    return nullptr;
}

void *m_contents(buffer *self, const char *) { return self->contents; }
word m_threads(pipeline *, const char *) { return fault("few-threads") ? 16 : 1024; }
word m_width(pipeline *, const char *) { return fault("narrow") ? 16 : GK_WARP; }

object *m_commands(queue *self, const char *) {
    if (fault("no-commands")) return nullptr;
    commands *made = new commands;
    made->kept.push_back(keep(self));
    return autoreleased(made);
}
object *m_encoder(commands *self, const char *) {
    if (self->open || self->status != 0) misuse("computeCommandEncoder", "the command buffer has another encoder or is committed");
    if (fault("no-encoder")) return nullptr;
    self->open = true;
    return autoreleased(new encoder(self));
}
queue *queue_of(commands *self) { return static_cast<queue *>(self->kept[0]); }
void m_commit(commands *self, const char *) {
    if (self->open || self->status != 0) misuse("commit", "an encoder is open, or it is the second time");
    self->status = 2;
    keep(self);
    queue_of(self)->committed.push_back(self);
}
void m_wait(commands *self, const char *) {
    if (self->status < 2) misuse("waitUntilCompleted", "never committed");
    queue *to = queue_of(self);
    while (self->status == 2) {
        commands *next = to->committed.front();
        to->committed.erase(to->committed.begin());
        execute(next);
        drop(next);
    }
}
word m_status(commands *self, const char *) { return static_cast<word>(self->status); }
object *m_error(commands *self, const char *) { return self->failure.empty() ? nullptr : autoreleased(new error(self->failure)); }

void m_set_pipeline(encoder *self, const char *, pipeline *code) {
    self->target->kept.push_back(keep(code));
    self->code = code;
}
void m_set_buffer(encoder *self, const char *, buffer *memory, word offset, word index) {
    if (index >= GK_METAL_OPERANDS) misuse("setBuffer:offset:atIndex:", "no such argument");
    if (offset >= memory->bytes || offset % 16 != 0) misuse("setBuffer:offset:atIndex:", "the offset");
    self->target->kept.push_back(keep(memory));
    self->next.args.operand[index] = memory->contents + offset;
}
void m_set_bytes(encoder *self, const char *, const void *bytes, word count, word index) {
    if (index != GK_METAL_OPERANDS || count != GK_METAL_BYTES) misuse("setBytes:length:atIndex:", "not the arguments of gk's kernels");
    memcpy(self->next.args.bytes, bytes, count);
    self->bytes = count;
}
void m_dispatch(encoder *self, const char *, size groups, size threads) {
    if (self->ended || !self->code || self->bytes == 0) misuse("dispatchThreadgroups:", "no pipeline, no arguments, or no open encoder");
    for (unsigned char *operand : self->next.args.operand)
        if (!operand) misuse("dispatchThreadgroups:", "an argument was not set");
    if (threads.height != 1 || threads.depth != 1 || threads.width == 0 || threads.width > 1024) misuse("dispatchThreadgroups:", "threads");
    if (groups.width == 0 || groups.height == 0 || groups.depth == 0) misuse("dispatchThreadgroups:", "an empty grid");
    dispatch made = self->next;
    made.code = self->code;
    made.args.function = self->code->code.body;
    made.grid = {static_cast<unsigned int>(groups.width), static_cast<unsigned int>(groups.height), static_cast<unsigned int>(groups.depth)};
    made.block = {static_cast<unsigned int>(threads.width), 1, 1};
    self->target->all.push_back(made);
}
void m_end(encoder *self, const char *) {
    if (self->ended) misuse("endEncoding", "the second time");
    self->ended = true;
    self->target->open = false;
}

signed char m_responds(object *self, const char *, const char *selector);

const struct method {
    kind of;
    const char *selector;
    void *body;
} METHODS[] = {
#define METHOD(of, selector, body) {of, selector, reinterpret_cast<void *>(body)}
    METHOD(CLASS_STRING, "stringWithUTF8String:", m_string),
    METHOD(CLASS_PROCESS, "processInfo", m_process),
    METHOD(CLASS_OPTIONS, "alloc", m_alloc_options),
    METHOD(PROCESS, "operatingSystemVersionString", m_system),
    METHOD(STRING, "UTF8String", m_utf8),
    METHOD(ERROR, "localizedDescription", m_description),
    METHOD(OPTIONS, "init", m_init),
    METHOD(OPTIONS, "setMathMode:", m_math_mode),
    METHOD(OPTIONS, "setMathFloatingPointFunctions:", m_math_functions),
    METHOD(OPTIONS, "setFastMathEnabled:", m_fast_math),
    METHOD(ARRAY, "count", m_count),
    METHOD(ARRAY, "objectAtIndex:", m_element),
    METHOD(DEVICE, "name", m_device_name),
    METHOD(DEVICE, "supportsFamily:", m_family),
    METHOD(DEVICE, "hasUnifiedMemory", m_unified),
    METHOD(DEVICE, "isLowPower", m_low_power),
    METHOD(DEVICE, "registryID", m_registry),
    METHOD(DEVICE, "recommendedMaxWorkingSetSize", m_working_set),
    METHOD(DEVICE, "currentAllocatedSize", m_allocated),
    METHOD(DEVICE, "maxBufferLength", m_max_buffer),
    METHOD(DEVICE, "maxThreadgroupMemoryLength", m_threadgroup_memory),
    METHOD(DEVICE, "newCommandQueue", m_new_queue),
    METHOD(DEVICE, "newBufferWithLength:options:", m_new_buffer),
    METHOD(DEVICE, "newLibraryWithSource:options:error:", m_new_library),
    METHOD(DEVICE, "newComputePipelineStateWithFunction:error:", m_new_pipeline),
    METHOD(LIBRARY, "newFunctionWithName:", m_new_function),
    METHOD(BUFFER, "contents", m_contents),
    METHOD(PIPELINE, "maxTotalThreadsPerThreadgroup", m_threads),
    METHOD(PIPELINE, "threadExecutionWidth", m_width),
    METHOD(QUEUE, "commandBuffer", m_commands),
    METHOD(COMMANDS, "computeCommandEncoder", m_encoder),
    METHOD(COMMANDS, "commit", m_commit),
    METHOD(COMMANDS, "waitUntilCompleted", m_wait),
    METHOD(COMMANDS, "status", m_status),
    METHOD(COMMANDS, "error", m_error),
    METHOD(ENCODER, "setComputePipelineState:", m_set_pipeline),
    METHOD(ENCODER, "setBuffer:offset:atIndex:", m_set_buffer),
    METHOD(ENCODER, "setBytes:length:atIndex:", m_set_bytes),
    METHOD(ENCODER, "dispatchThreadgroups:threadsPerThreadgroup:", m_dispatch),
    METHOD(ENCODER, "endEncoding", m_end),
#undef METHOD
};

void *find(const object *self, const char *selector) {
    if (strcmp(selector, "retain") == 0) return reinterpret_cast<void *>(m_retain);
    if (strcmp(selector, "release") == 0) return reinterpret_cast<void *>(m_release);
    if (strcmp(selector, "respondsToSelector:") == 0) return reinterpret_cast<void *>(m_responds);
    if (fault("old-system") && strncmp(selector, "setMath", 7) == 0) return nullptr;
    for (const method &one : METHODS)
        if (one.of == self->what && strcmp(one.selector, selector) == 0) return one.body;
    return nullptr;
}

signed char m_responds(object *self, const char *, const char *selector) { return find(self, selector) != nullptr; }

} // namespace

// ---- what the host looks up ----

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT object *objc_getClass(const char *name) {
    object *const classes[] = {&class_string, &class_options, &class_process};
    for (object *one : classes)
        if (strcmp(name, KIND_NAMES[one->what]) == 0) return one;
    return nullptr;
}

EXPORT const char *sel_registerName(const char *name) {
    static std::set<std::string> *all = new std::set<std::string>;
    return all->insert(name).first->c_str();
}

EXPORT void *objc_autoreleasePoolPush() {
    pools.emplace_back();
    return reinterpret_cast<void *>(pools.size());
}

EXPORT void objc_autoreleasePoolPop(void *pool) {
    if (reinterpret_cast<size_t>(pool) != pools.size()) misuse("objc_autoreleasePoolPop", "not the newest pool");
    std::vector<object *> all;
    all.swap(pools.back());
    pools.pop_back();
    for (object *one : all) drop(one);
}

EXPORT object *MTLCreateSystemDefaultDevice() { return fault("no-device") ? nullptr : keep(&gpu); }

EXPORT object *MTLCopyAllDevices() {
    array *all = new array;
    if (!fault("no-device") && !fault("old-system")) all->all.push_back(keep(&gpu));
    return all;
}

extern "C" __attribute__((visibility("hidden"), used)) void *gk_method_of(object *self, const char *selector) {
    if (!self) misuse("a message to nil", selector); // allowed in Objective-C, but never intended here
    if (!object::live().count(self)) misuse("a message to an object that has ended", selector);
    void *body = find(self, selector);
    if (!body) misuse(KIND_NAMES[self->what], selector);
    return body;
}

// Finds the method and jumps there with all registers and the stack unchanged.
asm(R"(
.text
.globl objc_msgSend
.type objc_msgSend, @function
objc_msgSend:
    pushq %rbp
    movq %rsp, %rbp
    pushq %rdi
    pushq %rsi
    pushq %rdx
    pushq %rcx
    pushq %r8
    pushq %r9
    call gk_method_of
    movq %rax, %r11
    popq %r9
    popq %r8
    popq %rcx
    popq %rdx
    popq %rsi
    popq %rdi
    popq %rbp
    jmp *%r11
.size objc_msgSend, .-objc_msgSend
)");
