/* Maps an op to its kernel launches: kernel, number of blocks, arguments. Pure for a given warp size. */
#ifndef GK_GPU_LAUNCH_H
#define GK_GPU_LAUNCH_H

#include "device.h"

typedef struct gpu_launch {
    int kernel;
    uint32_t grid[3];
    uint32_t block;
    uint32_t uses_scratch; /* args.aux is an offset into the plan's scratch */
    gk_gpu_args args;
} gpu_launch;

enum {
    GPU_MOST_LAUNCHES = 2,   /* of one op */
    GPU_MOST_OPS = 1 << 20,  /* of one plan */
    GPU_MATVEC_TOKENS = 16,  /* above this, the tiled kernel */
    GPU_DOT_TOKENS = 8,      /* above this, matrix units if the device has them */
    GPU_FUSED_TOKENS = 8,    /* above this, products are not fused: their weights would be read twice */
    GPU_SPLIT_TOKENS = 8,
    GPU_GRID_Y_MOST = 65535, /* limit of all devices; z has the same */
    GPU_MMA_ROWS_MOST = 1 << 20, /* of a weight: the tiles of joined products are within that limit */
    GPU_ROW_BLOCKS_MOST = 1024
};

static uint32_t gpu_divide_up(uint32_t value, uint32_t by) { return value / by + (value % by != 0); }
static uint32_t gpu_least(uint32_t x, uint32_t y) { return x < y ? x : y; }

static uint64_t gpu_address(const gk_tensor *t) { return t->buffer ? t->buffer->address + t->offset : 0; }

/* Index of a type in every family of kernels; caches and copies support only the first two. */
static int gpu_type_index(uint32_t type) {
    static const uint32_t types[] = {GK_F32, GK_F16, GK_BF16, GK_Q8_0, GK_Q4_0, GK_Q4_K, GK_Q6_K};
    int index = 0;
    while (types[index] != type && index + 1 < (int)(sizeof types / sizeof *types)) index++;
    return index;
}

/* Fills what most ops have in common: addresses, strides, rows. */
static gpu_launch gpu_begin_launch(const gk_device *device, const gk_op *op, int kernel) {
    gpu_launch launch;
    memset(&launch, 0, sizeof launch);
    launch.kernel = kernel;
    launch.grid[0] = launch.grid[1] = launch.grid[2] = 1;
    launch.block = GK_GPU_THREADS;
    launch.args.dst = gpu_address(&op->dst);
    launch.args.a = gpu_address(&op->a);
    launch.args.b = gpu_address(&op->b);
    launch.args.c = gpu_address(&op->c);
    launch.args.d = gpu_address(&op->d);
    launch.args.step = device->step;
    launch.args.dst_stride = (uint32_t)gk_stride(&op->dst);
    launch.args.a_stride = (uint32_t)gk_stride(&op->a);
    launch.args.b_stride = (uint32_t)gk_stride(&op->b);
    launch.args.c_stride = (uint32_t)gk_stride(&op->c);
    launch.args.d_stride = (uint32_t)gk_stride(&op->d);
    launch.args.width = op->dst.ne[0];
    launch.args.rows = gk_op_rows(op);
    launch.args.flags = op->flags;
    return launch;
}

/* Sets the plane offsets of operand a for kernels/weight.cuh. */
static void gpu_set_planes(const gk_op *op, gpu_launch *launch) {
    gk_planes planes;
    if (!gk_planes_of(op->a.type, op->a.ne[0], op->a.ne[1], &planes)) return; /* cannot fail: the size was computed before */
    for (uint32_t p = 1; p < GK_PLANES; p++) launch->args.plane[p - 1] = gk_plane_units(&planes, p);
}

/* Sets the grid for kernels with GK_FOR_ELEMENTS: blocks over the elements of a row, and over the rows. */
static void gpu_cover(gpu_launch *launch, uint32_t elements) {
    launch->grid[0] = gpu_least(gpu_divide_up(elements, GK_GPU_THREADS), GPU_ROW_BLOCKS_MOST);
    launch->grid[1] = gpu_least(launch->args.rows, GPU_GRID_Y_MOST);
}

/* The first kernel of a family for few tokens. */
static int gpu_matvec_family(uint16_t code, bool dot) {
    if (code == GK_OP_GATE_UP) return dot ? GPU_KERNEL_gate_up_dot_q8_0_1 : GPU_KERNEL_gate_up_f32_1;
    return dot ? GPU_KERNEL_dot_q8_0_1 : GPU_KERNEL_matvec_f32_1;
}

/* How the kernels dot_<type>_1 of q8_0, q4_0, q4_k and q6_k divide the work. */
static const uint8_t gpu_dot_blocks[] = {GK_GPU_DOT_BLOCKS_q8_0, GK_GPU_DOT_BLOCKS_q4_0, GK_GPU_DOT_BLOCKS_q4_k, GK_GPU_DOT_BLOCKS_q6_k};
static const uint8_t gpu_dot_lines[] = {GK_GPU_DOT_LINES_q8_0, GK_GPU_DOT_LINES_q4_0, GK_GPU_DOT_LINES_q4_k, GK_GPU_DOT_LINES_q6_k};

/* Blocks of a kernel that loops over groups of rows: as many as run at once. 0 for other kernels. */
static uint32_t gpu_resident_blocks(const gk_device *device, int kernel) {
    const int first = kernel >= GPU_KERNEL_gate_up_dot_q8_0_1 ? GPU_KERNEL_gate_up_dot_q8_0_1 : GPU_KERNEL_dot_q8_0_1, place = kernel - first;
    if (place < 0 || place >= (int)(2 * sizeof gpu_dot_blocks) || place % 2 != 0) return 0; /* the odd ones are for eight tokens */
    return device->processors * gpu_dot_blocks[place / 2];
}

static int gpu_is_fused_product(const gk_op *op) { return op->code == GK_OP_NORM_MATMUL || op->code == GK_OP_GATE_UP; }

/* Tokens that a product computes. */
static uint32_t gpu_tokens(const gk_op *op) { return (op->flags & GK_LAST_ROW) ? 1 : op->b.ne[1]; }

/* Does a product round activations to int8? */
static bool gpu_uses_dot(const gk_device *device, const gk_op *op) {
    return (device->features & GK_GPU_HAS_DOT) && gk_is_block_type(op->a.type);
}

/* Does a product use matrix units? They compute with f16, or bf16 for bf16 weights. */
static bool gpu_uses_mma(const gk_device *device, const gk_op *op) {
    return op->code == GK_OP_MATMUL && (device->features & GK_GPU_HAS_MMA) && gpu_tokens(op) > GPU_DOT_TOKENS && op->a.type != GK_F32 &&
           op->a.ne[1] <= GPU_MMA_ROWS_MOST && op->a.ne[0] % 8 == 0 && gk_stride(&op->b) % 4 == 0;
}

/* Bytes of scratch: the activations, and a factor for each token. */
static uint64_t gpu_mma_scratch(const gk_op *op) {
    const uint64_t depth = (uint64_t)gpu_divide_up(op->a.ne[0], GK_GPU_MMA_ALIGN) * GK_GPU_MMA_ALIGN;
    const uint64_t tokens = (uint64_t)gpu_divide_up(op->b.ne[1], GK_GPU_MMA_TOKENS) * GK_GPU_MMA_TOKENS;
    return tokens * depth * 2 + op->b.ne[1] * sizeof(float);
}

/* Do two ops in sequence, which begin with these launches, convert the same activations? A product does not change its
 * own input, so the second finds them in the scratch memory. */
static bool gpu_same_conversion(const gpu_launch *x, const gpu_launch *y) {
    return (x->kernel == GPU_KERNEL_sixteen_rows_f16 || x->kernel == GPU_KERNEL_sixteen_rows_bf16) && x->kernel == y->kernel &&
           x->args.b == y->args.b && x->args.b_stride == y->args.b_stride && x->args.depth == y->args.depth && x->args.rows == y->args.rows &&
           x->args.quads == y->args.quads;
}

static bool gpu_is_mma(int kernel) { return kernel >= GPU_KERNEL_mma_f16_64_64 && kernel <= GPU_KERNEL_mma_q6_k_128_128; }

/* Sets the grid of a product with tiles of so many rows of the weights and so many tokens; returns the number of blocks. */
static uint32_t gpu_mma_tiles(gpu_launch *launch, uint32_t tokens, uint32_t rows, uint32_t columns) {
    launch->grid[0] = gpu_divide_up(launch->args.width, rows);
    for (int n = 0; n < GK_GPU_BESIDE; n++) launch->grid[0] += gpu_divide_up(launch->args.beside[n].width, rows);
    launch->grid[1] = gpu_divide_up(tokens, columns);
    return launch->grid[0] * launch->grid[1];
}

/* Larger tiles read less memory for each product, but every multiprocessor should have two blocks, or at least one. */
static int gpu_choose_tiles(const gk_device *device, gpu_launch *launch) {
    const uint32_t tokens = (launch->args.flags & GK_LAST_ROW) ? 1 : launch->args.rows;
    if (tokens > 64 && (device->features & GK_GPU_HAS_WIDE_MMA) && gpu_mma_tiles(launch, tokens, 128, 128) >= device->processors * 2) return 2;
    if (gpu_mma_tiles(launch, tokens, 128, 64) >= device->processors) return 1;
    (void)gpu_mma_tiles(launch, tokens, 64, 64);
    return 0;
}

/* Completes the launch of a product on matrix units, after other products have joined it. Blocks that start together
 * share rows of the weights: all tokens first. */
static void gpu_complete_mma(const gk_device *device, gpu_launch *launch) {
    launch->kernel += gpu_choose_tiles(device, launch);
    const uint32_t rows = launch->grid[0];
    launch->grid[0] = launch->grid[1];
    launch->grid[1] = rows;
}

/* Does a kernel take further products of the same activations? */
static bool gpu_takes_products(int kernel) {
    return (kernel >= GPU_KERNEL_matvec_f32_1 && kernel <= GPU_KERNEL_matvec_q6_k_8) ||
           (kernel >= GPU_KERNEL_dot_q8_0_1 && kernel <= GPU_KERNEL_dot_q6_k_8) || gpu_is_mma(kernel);
}

static uint32_t gpu_matmul_mma(const gk_device *device, const gk_op *op, gpu_launch launch, gpu_launch *out) {
    const uint32_t tokens = gpu_tokens(op);
    launch.uses_scratch = 1;
    launch.kernel = op->a.type == GK_BF16 ? GPU_KERNEL_sixteen_rows_bf16 : GPU_KERNEL_sixteen_rows_f16;
    launch.grid[0] = tokens;
    launch.args.quads = op->a.type == GK_F16 || op->a.type == GK_BF16 ? 2 : op->a.type == GK_Q8_0 ? 4 : 8;
    out[0] = launch;
    launch.kernel = GPU_KERNEL_mma_f16_64_64 + (gpu_type_index(op->a.type) - gpu_type_index(GK_F16)) * 3;
    launch.block = GK_GPU_MMA_WARPS * device->warp;
    (void)gpu_mma_tiles(&launch, tokens, 64, 64); /* gpu_complete_mma() may take others */
    out[1] = launch;
    return 2;
}

/* MATMUL, NORM_MATMUL, GATE_UP. */
static uint32_t gpu_matmul(const gk_device *device, const gk_op *op, gpu_launch *out) {
    const int type = gpu_type_index(op->a.type);
    const uint32_t tokens = gpu_tokens(op);
    gpu_launch launch = gpu_begin_launch(device, op, GPU_KERNEL_matmul_tile_f32 + type);
    launch.args.depth = op->a.ne[0];
    launch.args.scale = op->f[0];
    launch.args.norm = gk_norm_of(op) ? gpu_address(gk_norm_of(op)) : 0;
    launch.args.vector = op->a.ne[0] % (op->a.type == GK_F32 ? 4 : 8) == 0 && launch.args.b_stride % 4 == 0;
    gpu_set_planes(op, &launch);
    if (gpu_uses_mma(device, op)) return gpu_matmul_mma(device, op, launch, out);
    if (tokens <= GPU_MATVEC_TOKENS) {
        const bool dot = gpu_uses_dot(device, op);
        const bool many = tokens > 1;
        const uint32_t columns = many ? 8 : 1;
        const uint32_t threads = dot ? GK_GPU_DOT_THREADS : GK_GPU_MATVEC_THREADS;
        const uint32_t warps = threads / device->warp;
        const bool gated = op->code == GK_OP_GATE_UP;
        const uint32_t lines = dot ? GK_GPU_DOT_LINES(gpu_dot_lines[type - gpu_type_index(GK_Q8_0)], columns, gated)
                                   : GK_GPU_MATVEC_LINES(gk_is_block_type(op->a.type), columns, gated);
        launch.kernel = gpu_matvec_family(op->code, dot) + (dot ? type - gpu_type_index(GK_Q8_0) : type) * 2 + (int)many;
        launch.block = threads;
        launch.grid[0] = gpu_divide_up(op->a.ne[1], warps * (gated ? lines / 2 : lines));
        launch.grid[1] = gpu_divide_up(tokens, columns);
    } else {
        launch.grid[0] = gpu_divide_up(op->a.ne[1], GK_GPU_TILE);
        launch.grid[1] = gpu_divide_up(tokens, GK_GPU_TILE);
    }
    *out = launch;
    return 1;
}

/* Maximum number of splits of the cached positions. */
static uint32_t gpu_splits(const gk_op *op) {
    return gpu_least(gpu_divide_up(op->b.ne[1], GK_GPU_SPLIT_LEAST), GK_GPU_SPLITS_MOST);
}

static uint32_t gpu_select_k(const gk_op *op) { return op->code == GK_OP_TOPK ? (uint32_t)op->i[0] : 1; }

/* Elements in a list of topk_*. */
static uint32_t gpu_select_list(const gk_op *op) {
    uint32_t size = 1;
    while (size < gpu_select_k(op)) size *= 2;
    return size;
}

/* Elements of a row that one block selects from: as many blocks as have work, and whose lists topk_merge can merge at once
 * if that leaves no slice larger than a tile. */
static uint32_t gpu_select_slice(const gk_op *op) {
    const uint32_t width = op->a.ne[0], lists = GK_GPU_SELECT_TILE / gpu_select_list(op);
    if (width <= GK_GPU_SELECT_TILE) return GK_GPU_SELECT_TILE;
    const uint32_t units = gpu_divide_up(gpu_divide_up(width, lists), GK_GPU_TOPK_MOST);
    const uint32_t least = GK_GPU_SELECT_LEAST / GK_GPU_TOPK_MOST, most = GK_GPU_SELECT_TILE / GK_GPU_TOPK_MOST;
    return gpu_least(units > least ? units : least, most) * GK_GPU_TOPK_MOST;
}

/* Bytes of scratch that a supported op needs. For attention, maximum, sum and values of each split: all factors but n_head
 * are below 2^9, so the product fits. For topk, a list of ranks for each slice. */
static uint64_t gpu_scratch_bytes(const gk_device *device, const gk_op *op) {
    if (gpu_uses_mma(device, op)) return gpu_mma_scratch(op);
    if (op->code == GK_OP_ARGMAX || op->code == GK_OP_TOPK) {
        const uint32_t lists = gpu_divide_up(op->a.ne[0], gpu_select_slice(op));
        return lists == 1 ? 0 : (uint64_t)gk_op_rows(op) * lists * gpu_select_list(op) * sizeof(uint64_t);
    }
    if (op->code != GK_OP_ATTENTION || op->a.ne[1] > GPU_SPLIT_TOKENS) return 0;
    return (uint64_t)op->a.ne[1] * gpu_splits(op) * ((uint32_t)op->i[2] + 2) * sizeof(float) * (uint32_t)op->i[0];
}

/* Does attention use matrix units? They round queries and weights to f16, as the cache is. */
static bool gpu_uses_attention_mma(const gk_device *device, const gk_op *op) {
    return (device->features & (op->a.ne[1] > GPU_SPLIT_TOKENS ? GK_GPU_HAS_MMA : GK_GPU_HAS_SPLIT_MMA)) && op->b.type == GK_F16 && op->i[2] % 8 == 0 && op->i[2] <= 128;
}

/* As many splits as multiprocessors hold at once: each has to prepare its queries. */
static uint32_t gpu_splits_mma(const gk_device *device, const gk_op *op, uint32_t blocks) {
    const uint32_t resident = device->processors * 2 / blocks;
    return gpu_least(gpu_splits(op), device->processors == 0 ? GK_GPU_SPLITS_MOST : resident > 0 ? resident : 1);
}

static uint32_t gpu_attention(const gk_device *device, const gk_op *op, gpu_launch *out) {
    const int type = gpu_type_index(op->b.type);
    const uint32_t d_head = (uint32_t)op->i[2];
    const uint32_t tokens = op->a.ne[1];
    gpu_launch launch = gpu_begin_launch(device, op, 0);
    launch.block = GK_GPU_ATTENTION_THREADS;
    launch.args.n_head = (uint32_t)op->i[0];
    launch.args.n_head_kv = (uint32_t)op->i[1];
    launch.args.d_head = d_head;
    launch.args.n_ctx = op->b.ne[1];
    launch.args.scale = op->f[0];
    const bool mma = gpu_uses_attention_mma(device, op);
    if (mma && tokens > GPU_SPLIT_TOKENS) {
        launch.kernel = d_head > 64 ? GPU_KERNEL_attention_mma_128 : GPU_KERNEL_attention_mma_64;
        launch.block = GK_GPU_MMA_WARPS * device->warp;
        launch.grid[0] = launch.args.n_head;
        launch.grid[1] = gpu_divide_up(tokens, GK_GPU_MMA_QUERIES);
        *out = launch;
        return 1;
    }
    if (tokens > GPU_SPLIT_TOKENS) {
        const int wide = d_head > 128;
        launch.kernel = GPU_KERNEL_attention_f32_128 + type * 2 + wide;
        launch.grid[0] = launch.args.n_head;
        launch.grid[1] = gpu_divide_up(tokens, wide ? 16 : 32);
        *out = launch;
        return 1;
    }
    const uint32_t group = launch.args.n_head / launch.args.n_head_kv;
    const uint32_t queries = mma ? 4 : group == 1 ? 0 : group == 2 ? 1 : group <= 4 ? 2 : 3; /* 2^queries at once */
    const uint32_t size = d_head <= 64 ? 0 : d_head <= 128 ? 1 : 2;
    const uint32_t each = gpu_divide_up(64u << size, device->warp); /* elements per lane */
    launch.kernel = mma ? GPU_KERNEL_split_mma_64 + (int)size : GPU_KERNEL_split_f32_1_64 + type * 12 + (int)(queries * 3 + size);
    launch.args.vector = d_head % each == 0;
    launch.uses_scratch = 1;
    launch.grid[0] = launch.args.n_head_kv;
    launch.grid[2] = tokens * gpu_divide_up(group, 1u << queries);
    launch.args.splits = mma ? gpu_splits_mma(device, op, launch.grid[0] * launch.grid[2]) : gpu_splits(op);
    launch.grid[1] = launch.args.splits;
    out[0] = launch;
    launch.kernel = GPU_KERNEL_split_merge;
    launch.grid[0] = launch.args.n_head;
    launch.grid[1] = tokens;
    launch.grid[2] = 1;
    out[1] = launch;
    return 2;
}

static void gpu_rmsnorm(const gk_op *op, gpu_launch *launch) {
    const uint32_t group = op->b.ne[0];
    launch->args.depth = group;
    launch->args.scale = op->f[0];
    launch->grid[0] = op->a.ne[0] / group;
    launch->grid[1] = gpu_least(launch->args.rows, GPU_GRID_Y_MOST);
    if (group <= 128) launch->block = 64; /* one group per head: more threads would be idle */
}

static void gpu_rope(const gk_op *op, gpu_launch *launch) {
    launch->args.n_head = (uint32_t)op->i[0];
    launch->args.d_head = (uint32_t)op->i[1];
    launch->args.n_rot = (uint32_t)op->i[2];
    gpu_cover(launch, launch->args.n_head * (launch->args.d_head - launch->args.n_rot / 2));
}

static void gpu_kv_write(const gk_op *op, gpu_launch *launch) {
    const int rotates = op->code == GK_OP_ROPE_KV;
    launch->kernel = (rotates ? GPU_KERNEL_rope_kv_f32 : GPU_KERNEL_kv_write_f32) + gpu_type_index(op->dst.type);
    launch->args.n_head_kv = (uint32_t)op->i[0];
    launch->args.d_head = (uint32_t)op->i[1];
    launch->args.n_rot = (uint32_t)op->i[2];
    launch->args.n_ctx = op->dst.ne[1];
    gpu_cover(launch, rotates ? launch->args.n_head_kv * (launch->args.d_head - launch->args.n_rot / 2) : op->dst.ne[0]);
}

static void gpu_embed(const gk_op *op, gpu_launch *launch) {
    launch->kernel = GPU_KERNEL_embed_f32 + gpu_type_index(op->a.type);
    launch->args.depth = op->a.ne[1];
    gpu_set_planes(op, launch);
    gpu_cover(launch, op->dst.ne[0]);
}

static void gpu_elementwise(const gk_op *op, gpu_launch *launch) {
    bool vector = true; /* does the kernel have 16-byte accesses? */
    switch (op->code) {
    case GK_OP_SWIGLU: launch->kernel = GPU_KERNEL_swiglu; break;
    case GK_OP_ADD: launch->kernel = GPU_KERNEL_add; break;
    case GK_OP_MUL: launch->kernel = GPU_KERNEL_mul; break;
    case GK_OP_SILU:
        launch->kernel = GPU_KERNEL_silu;
        vector = false;
        break;
    case GK_OP_COPY:
        launch->kernel = GPU_KERNEL_copy_f32_f32 + gpu_type_index(op->a.type) * 2 + gpu_type_index(op->dst.type);
        vector = launch->kernel == GPU_KERNEL_copy_f32_f32;
        break;
    default: break;
    }
    if (op->code == GK_OP_ADD || op->code == GK_OP_MUL)
        if (op->b.ne[1] == 1) launch->args.b_stride = 0; /* one row for all */
    launch->args.vector = vector && (launch->args.width | launch->args.a_stride | launch->args.b_stride | launch->args.dst_stride) % 4 == 0;
    gpu_cover(launch, op->dst.ne[0] / (launch->args.vector ? 4 : 1));
}

/* ARGMAX is TOPK with k = 1, but for the values. */
static uint32_t gpu_select(const gk_op *op, gpu_launch launch, gpu_launch *out) {
    launch.kernel = GPU_KERNEL_topk_slices;
    launch.args.width = op->a.ne[0];
    launch.args.depth = gpu_select_k(op);
    if (op->code == GK_OP_ARGMAX) launch.args.dst_stride = 1;
    launch.args.list = gpu_select_list(op);
    launch.args.slice = gpu_select_slice(op);
    launch.args.splits = gpu_divide_up(op->a.ne[0], launch.args.slice);
    launch.block = GK_GPU_SELECT_THREADS;
    launch.grid[0] = launch.args.splits;
    launch.grid[1] = gpu_least(launch.args.rows, GPU_GRID_Y_MOST);
    launch.uses_scratch = launch.args.splits > 1;
    out[0] = launch;
    if (!launch.uses_scratch) return 1;
    launch.kernel = GPU_KERNEL_topk_merge;
    launch.grid[0] = 1;
    out[1] = launch;
    return 2;
}

/* Writes at most GPU_MOST_LAUNCHES launches for a checked op and returns their number. */
static uint32_t gpu_launches_of(const gk_device *device, const gk_op *op, gpu_launch *out) {
    gpu_launch launch = gpu_begin_launch(device, op, 0);
    switch (gk_code(op)) {
    case GK_OP_MATMUL:
    case GK_OP_GATE_UP:
    case GK_OP_NORM_MATMUL: return gpu_matmul(device, op, out);
    case GK_OP_ATTENTION: return gpu_attention(device, op, out);
    case GK_OP_EMBED: gpu_embed(op, &launch); break;
    case GK_OP_RMSNORM:
        launch.kernel = GPU_KERNEL_rmsnorm;
        gpu_rmsnorm(op, &launch);
        break;
    case GK_OP_ROPE:
        launch.kernel = GPU_KERNEL_rope;
        gpu_rope(op, &launch);
        break;
    case GK_OP_KV_WRITE:
    case GK_OP_ROPE_KV: gpu_kv_write(op, &launch); break;
    case GK_OP_SOFTMAX:
        launch.kernel = GPU_KERNEL_softmax;
        launch.args.scale = op->f[0];
        launch.grid[1] = gpu_least(launch.args.rows, GPU_GRID_Y_MOST);
        break;
    case GK_OP_ARGMAX:
    case GK_OP_TOPK: return gpu_select(op, launch, out);
    case GK_OP_STEP:
        launch.kernel = GPU_KERNEL_next_step;
        launch.args.depth = op->dst.buffer ? op->dst.ne[0] : 0;
        launch.block = 32;
        break;
    case GK_OP_SWIGLU:
    case GK_OP_SILU:
    case GK_OP_ADD:
    case GK_OP_MUL:
    case GK_OP_COPY: gpu_elementwise(op, &launch); break;
    }
    *out = launch;
    return 1;
}

/* Limits of these kernels beyond the rules of gk.h. NULL, or why there is no kernel. */
static const char *gpu_unsupported(const gk_device *device, const gk_op *op) {
    gpu_launch launches[GPU_MOST_LAUNCHES];
    if (op->code == GK_OP_ATTENTION && op->i[2] > GK_GPU_MAX_HEAD) return "attention: heads of more than 256 elements";
    if (gpu_is_fused_product(op) && gpu_tokens(op) > GPU_FUSED_TOKENS) return "fused products: more than 8 tokens";
    if (gk_norm_of(op) && !gpu_uses_dot(device, op)) return "the norm of a product: only when activations are rounded to int8";
    if (gk_stride(&op->dst) > UINT32_MAX || gk_stride(&op->a) > UINT32_MAX) return "a row stride above 2^32 - 1";
    const uint32_t count = gpu_launches_of(device, op, launches);
    for (uint32_t n = 0; n < count; n++) {
        const gpu_launch *launch = &launches[n];
        if ((uint64_t)launch->grid[0] * launch->block > INT32_MAX || launch->grid[1] > GPU_GRID_Y_MOST ||
            launch->grid[2] > GPU_GRID_Y_MOST)
            return "more rows than a launch has blocks for";
    }
    return NULL;
}

#endif
