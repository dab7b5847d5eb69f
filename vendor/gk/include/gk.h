/* gk: inference kernels for the backends of gpubuild. The only public header.
 *
 * C11, plain data, no callbacks. A program fills an array of gk_op, a backend compiles it once into a gk_plan, and
 * gk_plan_run replays it. The position, the number of cached tokens and the token ids are in device memory (the step
 * block and buffers), so a plan does not change between tokens.
 *
 * Rules for every backend:
 *   - Errors are values. A library never prints, exits, aborts or raises a signal on purpose.
 *   - Drivers are opened at run time (dlopen, LoadLibrary). A program that links every backend starts on a machine
 *     without any driver; gk_backend.enumerate then returns GK_NO_DRIVER with the reason.
 *   - Weights are uploaded once, with weight_put, and may have another layout on the device: interleaved rows (cpu),
 *     or blocks split into aligned planes, each padded to 64 bytes (GPUs). weight_bytes is exact.
 *   - Activations are f32. The KV cache is f16 or f32, in a layout private to the backend.
 *   - Two runs of one plan on the same contents give the same bits.
 *   - A gk_device is used from one thread at a time; different devices may be used from different threads. */
#ifndef GK_H
#define GK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GK_ABI 3

/* Element types. The values are the type ids of GGUF. */
typedef enum gk_type {
    GK_F32 = 0,
    GK_F16 = 1,
    GK_Q4_0 = 2,  /* 18 bytes for 32 elements: f16 scale, 16 bytes: elements 0..15 in the low nibbles, 16..31 in the high */
    GK_Q8_0 = 8,  /* 34 bytes for 32 elements: f16 scale, 32 x i8 */
    GK_Q4_K = 12, /* 144 bytes for 256 elements: f16 scale and minimum, 8 x 6 bits of each, 256 x 4 bits */
    GK_Q6_K = 14, /* 210 bytes for 256 elements: 256 x 4 and 2 bits, 16 x i8 scales, f16 scale */
    GK_I32 = 26,
    GK_BF16 = 30
} gk_type;

typedef enum gk_status {
    GK_OK = 0,
    GK_NO_DRIVER = 1,   /* no loader or driver library on this machine */
    GK_NO_DEVICE = 2,   /* a driver that offers no device */
    GK_TOO_OLD = 3,     /* driver or device lacks a required feature */
    GK_OUT_OF_MEMORY = 4,
    GK_UNSUPPORTED = 5, /* this backend has no kernel for the op, type or shape */
    GK_DEVICE_LOST = 6,
    GK_BAD_ARGUMENT = 7,
    GK_FAILED = 8       /* anything else; gk_backend.last_error has the text */
} gk_status;

typedef enum gk_device_kind {
    GK_KIND_CPU = 0,
    GK_KIND_INTEGRATED = 1,
    GK_KIND_DISCRETE = 2,
    GK_KIND_SOFTWARE = 3 /* a GPU interface that runs on the CPU: llvmpipe, PoCL */
} gk_device_kind;

typedef struct gk_device gk_device;
typedef struct gk_buffer gk_buffer;
typedef struct gk_plan gk_plan;

/* Text fields are UTF-8, end in NUL, and are empty if the backend does not know the value. */
typedef struct gk_device_info {
    char name[128];    /* "NVIDIA H200" */
    char driver[96];   /* "580.65.06", "llvmpipe Mesa 22.3.6" */
    char arch[32];     /* "sm_90", "gfx942", "avx512_bf16" */
    char pci[16];      /* "0000:c1:00.0" */
    uint8_t uuid[16];  /* all zero if unknown */
    uint32_t kind;     /* gk_device_kind */
    uint32_t reserved;
    uint64_t memory_total; /* bytes */
    uint64_t memory_free;  /* bytes */
    uint64_t max_buffer;   /* bytes, the largest single allocation */
} gk_device_info;

enum {
    /* Results as exact as f32 allows, for backends that would otherwise round the activations of a matmul. cpu
     * stores weights of block types (q8_0, q4_0, q4_k, q6_k) as f32, which takes four to seven times the memory (see
     * weight_bytes), and does not use BF16 dot products for bf16 weights. vulkan does not use integer dot products,
     * nor cooperative matrices for f16 weights. cuda otherwise rounds to int8 with weights of block types and up to
     * eight rows, and with more rows to f16 (bf16 with bf16 weights), also queries of attention; weights of blocks
     * above 65504 are infinite then. Backends that round nothing ignore this flag. */
    GK_OPEN_EXACT = 1,
    /* cpu on Linux, on machines with several memory nodes (NUMA): each thread stays on the processors of one node, and
     * writes and reads the same rows of weights, so that most of what it reads is in the memory of its node. The calling
     * thread is one of them while a function runs. Without several nodes, and elsewhere, this flag changes nothing. */
    GK_OPEN_BIND = 2
};

typedef struct gk_open_options {
    uint32_t threads;      /* cpu and ref: worker threads, 0 = one per fast core that this process may use */
    uint32_t flags;        /* GK_OPEN_EXACT */
    const char *cache_dir; /* folder for compiled pipelines; NULL: nothing is written */
} gk_open_options;

/* A typed slice of a buffer. ne[0] is contiguous, as in GGUF; unused dimensions are 1.
 * An unused operand has buffer == NULL. */
typedef struct gk_tensor {
    gk_buffer *buffer;
    uint64_t offset;     /* bytes; a multiple of 64 */
    uint32_t type;       /* gk_type */
    uint32_t row_stride; /* elements from one row (ne[0]) to the next; 0 = ne[0] */
    uint32_t ne[4];
} gk_tensor;

/* T is the number of rows of an activation in the plan. A run uses the first step.n_tok of them; rows past n_tok
 * hold unspecified values afterwards. An op with fewer rows than n_tok, such as one after a matmul with GK_LAST_ROW,
 * computes all of its rows. Bytes between two rows are not written. An output must not overlap another operand
 * except for the exact aliases listed below; columns of one wider matrix do not overlap. Operands have at most two
 * dimensions. W = weight (any weight type, written with weight_put), X = activation (f32, [T][features], written by
 * ops or gk_backend.write). */
typedef enum gk_op_code {
    /* dst[t] = W a[ b[t] ].  a: W ne = {n_embd, n_vocab}; b: i32 {T}; dst: X {n_embd, T}. An id outside the
     * vocabulary yields a row of zeros. */
    GK_OP_EMBED = 1,
    /* dst = a / sqrt(mean(a^2) + eps) * b, for each group of b.ne[0] elements (one group per row, or one per head).
     * b: f32 {group}. f[0] = eps. dst may be a. */
    GK_OP_RMSNORM = 2,
    /* dst[t][r] = sum_k a[r][k] * b[t][k].  a: W ne = {k, n_out}; b: X {k, T}; dst: X {n_out, T}. GK_BIAS: + c[r], c
     * f32 {n_out}. GK_ACCUMULATE: adds to dst. GK_LAST_ROW: computes only t = n_tok - 1, into row 0 of dst, which
     * may have a single row. */
    GK_OP_MATMUL = 3,
    /* Rotates pairs in the first n_rot elements of every head and copies the rest. a: X {n_head*d_head, T}; b: f32
     * table ne = {n_rot, n_ctx}: row p holds cos, sin, cos, sin ... of position p for pair 0, 1, ...; the position
     * of row t is step.pos + t. Pairs: (2i, 2i+1), with GK_NEOX (i, i + n_rot/2). i[0] = n_head, i[1] = d_head, i[2]
     * = n_rot. dst may be a. */
    GK_OP_ROPE = 4,
    /* Stores row t of a (keys) and b (values), X {n_head_kv*d_head, T}, at position step.pos + t of the caches dst
     * (keys) and c (values): f16 or f32, ne = {n_head_kv*d_head, n_ctx}, private layout, gk_row_bytes(type, ne[0]) *
     * ne[1] bytes each. i[0] = n_head_kv, i[1] = d_head. Stores only rows < n_tok. */
    GK_OP_KV_WRITE = 5,
    /* Causal attention: row t sees positions 0 .. step.pos + t. a: queries X {n_head*d_head, T};
     * b: key cache, c: value cache, as in KV_WRITE; dst: X {n_head*d_head, T}. Head h reads kv head
     * h / (n_head / n_head_kv). i[0] = n_head, i[1] = n_head_kv, i[2] = d_head; f[0] = scale. */
    GK_OP_ATTENTION = 6,
    GK_OP_SWIGLU = 7,  /* dst = silu(a) * b; X, equal shapes; dst may be a or b */
    GK_OP_SILU = 8,    /* dst = a / (1 + exp(-a)); dst may be a */
    GK_OP_ADD = 9,     /* dst = a + b; b has T rows, or one row that is added to every row of a; dst may be a or b */
    GK_OP_MUL = 10,    /* dst = a * b; b as in ADD */
    GK_OP_SOFTMAX = 11,/* each row: exp(s*a - max) / sum; f[0] = s; dst may be a */
    GK_OP_ARGMAX = 12, /* dst i32 {rows}: index of the largest element of each row of a; lowest index on ties; NaN never wins */
    /* The k largest elements of each row of a, descending, lowest index first on ties. dst: i32 {k, rows}; c: f32
     * {k, rows}, the values. i[0] = k, 1 <= k <= 256. */
    GK_OP_TOPK = 13,
    GK_OP_COPY = 14,   /* dst = a, equal ne; each of them f32 or f16 */
    /* Ends a decode plan (T = 1): id = a[0] (i32, from ARGMAX); b[0] = id (the token buffer that EMBED reads); if
     * dst is given, dst[step.run] = id (i32 history); then step.pos += step.n_tok, step.run += 1. All of it happens
     * on the device: with STEP, plan_run(repeat = n) generates n tokens. Never writes past the end of dst. */
    GK_OP_STEP = 15,

    /* Fused ops: several of the ops above in one, without writing the intermediate tensors. Created by gk_fuse. A
     * backend may have kernels for none of them, or only for some shapes. */

    /* ROPE of the keys, then KV_WRITE. Row t of a (keys, not yet rotated) and b (values), X {n_head_kv*d_head, T},
     * is stored at position step.pos + t of the caches dst (keys, rotated) and c (values), as in KV_WRITE. d: the
     * table, as in ROPE with GK_NEOX. i[0] = n_head_kv, i[1] = d_head, i[2] = n_rot. a is only read. */
    GK_OP_ROPE_KV = 16,
    /* dst[t][r] = silu(sum_k a[r][k] * b[t][k]) * sum_k d[r][k] * b[t][k]: two MATMULs with the same b, then SWIGLU.
     * a (gate) and d (up): W ne = {k, n_out}, of one type; b: X {k, T}; dst: X {n_out, T}. No flags. c, if given: f32
     * {k}, the weights of a norm of b with eps f[0], as in NORM_MATMUL. */
    GK_OP_GATE_UP = 17,
    /* RMSNORM of the rows of b, one group per row, then MATMUL: dst[t][r] = sum_k a[r][k] * n[t][k] with n[t] = b[t]
     * / sqrt(mean(b[t]^2) + eps) * d. d: f32 {k}; f[0] = eps; everything else, flags included, as in MATMUL. */
    GK_OP_NORM_MATMUL = 18
} gk_op_code;

enum {
    GK_ACCUMULATE = 1,
    GK_BIAS = 2,
    GK_NEOX = 4,
    GK_LAST_ROW = 8
};

typedef struct gk_op {
    uint16_t code;  /* gk_op_code */
    uint16_t flags;
    uint32_t tag;   /* a number of the caller's choice, shown in error messages */
    gk_tensor dst, a, b, c, d; /* d: fused ops only */
    int32_t i[4];
    float f[4];
} gk_op;

/* Copied to the device at the start of plan_run; 16 bytes. The cache holds pos tokens before the run and pos + n_tok
 * after it. */
typedef struct gk_step {
    uint32_t n_tok; /* 1 .. T */
    uint32_t pos;   /* pos + n_tok <= n_ctx, else GK_BAD_ARGUMENT */
    uint32_t run;   /* index into the history of STEP; 0 to start */
    uint32_t reserved;
} gk_step;

typedef enum gk_usage {
    GK_USAGE_WEIGHT = 1, /* filled by weight_put or write, read by ops */
    GK_USAGE_STATE = 2,  /* activations, caches: device memory */
    GK_USAGE_STAGING = 3 /* small, written or read by the host for every token */
} gk_usage;

/* Bytes transferred between host and device since the device was opened. plan_run counts 16 for its step. */
typedef struct gk_traffic {
    uint64_t up;
    uint64_t down;
} gk_traffic;

/* How the launches of a plan reach the device. */
typedef enum gk_replay {
    GK_REPLAY_HOST = 0,     /* no launches: the host computes every op (cpu, ref) */
    GK_REPLAY_LAUNCHES = 1, /* each run issues every launch again */
    GK_REPLAY_COMMANDS = 2, /* recorded once in a command buffer (vulkan) */
    GK_REPLAY_GRAPH = 3     /* recorded once in a driver graph (cuda, rocm, sycl) */
} gk_replay;

typedef struct gk_plan_info {
    uint32_t launches; /* of one run, without the one that stores the step */
    uint32_t replay;   /* gk_replay */
    char note[240];    /* why a backend with graphs issues the launches one by one, or "" */
} gk_plan_info;

/* One constant object per static library. Every function accepts any argument that its types allow; invalid ones
 * return GK_BAD_ARGUMENT. */
typedef struct gk_backend {
    uint32_t abi; /* GK_ABI */
    uint32_t reserved;
    const char *id; /* "cpu", "cuda", "rocm", "vulkan", ...; "ref" for the reference */

    /* Writes up to `capacity` descriptions and sets *count to the number of devices. On failure writes one line to
     * `why`: what was looked for and the result. */
    gk_status (*enumerate)(gk_device_info *out, int capacity, int *count, char *why, size_t why_capacity);
    /* options may be NULL. On failure sets *out to NULL and writes one line to `why`. */
    gk_status (*open)(int index, const gk_open_options *options, gk_device **out, char *why, size_t why_capacity);
    void (*close)(gk_device *); /* frees remaining buffers and plans; NULL is allowed */
    const char *(*last_error)(gk_device *); /* text of the last failure on this device, or "" */
    gk_status (*memory)(gk_device *, uint64_t *free_bytes, uint64_t *total_bytes);
    void (*traffic)(gk_device *, gk_traffic *);

    gk_status (*alloc)(gk_device *, uint64_t bytes, uint32_t usage, gk_buffer **); /* zeroed */
    void (*release)(gk_device *, gk_buffer *); /* NULL is allowed */
    gk_status (*write)(gk_device *, gk_buffer *, uint64_t offset, const void *source, uint64_t bytes);
    gk_status (*read)(gk_device *, gk_buffer *, uint64_t offset, void *destination, uint64_t bytes);

    /* Bytes that a weight {ne0, ne1} of this type takes on the device after repacking, a multiple of 64; 0 if the
     * type is not supported. */
    uint64_t (*weight_bytes)(gk_device *, uint32_t type, uint64_t ne0, uint64_t ne1);
    /* Repacks and uploads rows [first, first + count) of dst from rows in the GGUF layout. Each row is passed once,
     * in ascending order; count is arbitrary, so a file can be streamed. */
    gk_status (*weight_put)(gk_device *, const gk_tensor *dst, const void *gguf_rows, uint64_t first, uint64_t count);

    /* GK_OK, or GK_UNSUPPORTED / GK_BAD_ARGUMENT with the reason in last_error. */
    gk_status (*supports)(gk_device *, const gk_op *);
    /* Checks every op and prepares the plan. The ops are copied. The buffers must outlive the plan. */
    gk_status (*plan_build)(gk_device *, const gk_op *ops, uint32_t count, gk_plan **out);
    /* Starts the plan `repeat` times (more than once only if it ends in STEP). May return before the run is
     * complete. */
    gk_status (*plan_run)(gk_device *, gk_plan *, const gk_step *, uint32_t repeat);
    gk_status (*plan_info)(gk_device *, gk_plan *, gk_plan_info *out);
    void (*plan_free)(gk_device *, gk_plan *); /* NULL is allowed */
    gk_status (*sync)(gk_device *); /* waits for all runs; read does so too */
} gk_backend;

/* Each function is the only exported symbol of libgk-<id>; libgk-core has the reference and the helpers below. */
const gk_backend *gk_backend_cpu(void);
const gk_backend *gk_backend_cuda(void);
const gk_backend *gk_backend_rocm(void);
const gk_backend *gk_backend_vulkan(void);
const gk_backend *gk_backend_opencl(void);
const gk_backend *gk_backend_metal(void);
const gk_backend *gk_backend_sycl(void);
const gk_backend *gk_backend_ref(void); /* every op in float64, one thread, host memory: the reference for tests */

const char *gk_status_text(gk_status); /* "out of memory" */
const char *gk_type_name(uint32_t type); /* "q8_0"; NULL if unknown */
uint32_t gk_type_block_elements(uint32_t type); /* 1; 32 for q8_0 and q4_0, 256 for q4_k and q6_k; 0 if unknown */
uint32_t gk_type_block_bytes(uint32_t type);
uint64_t gk_row_bytes(uint32_t type, uint64_t ne0); /* bytes of a row in the GGUF layout; 0 on overflow or if the row ends inside a block */
/* Checks shapes, types, flags, strides and parameters of one op against the rules above. Returns NULL if the op is
 * valid, else a constant text. Does not check the bounds of operands: only the backend knows its buffers. */
const char *gk_op_check(const gk_op *);
const char *gk_op_name(uint16_t code); /* "matmul"; NULL if unknown */

/* Copies n ops from `in` to `out` (room for n ops) and fuses ops where the device has kernels for the fused op
 * (`supports`) and no op reads an intermediate tensor, in this run of the plan or the next, before it is written
 * again. Returns the number of ops in `out`, at most n. After a run the intermediate tensors of fused ops
 * (normalised activations, keys, gate, up) hold unspecified values. Ops that plan_build would refuse are copied
 * unchanged. `in` and `out` must not overlap. */
uint32_t gk_fuse(const gk_backend *, gk_device *, const gk_op *in, uint32_t n, gk_op *out);

#ifdef __cplusplus
}
#endif
#endif
