/* Joins launches: ops that do not depend on each other run in one, because a small one takes less time than its start. */
#ifndef GK_GPU_JOIN_H
#define GK_GPU_JOIN_H

#include "launch.h"

static const gk_backend gpu_backend;

/* The first unused place for work of further blocks, or NULL. */
static gk_gpu_beside *gpu_free_beside(gpu_launch *launch) {
    for (int n = 0; n < GK_GPU_BESIDE; n++)
        if (launch->args.beside[n].width == 0) return &launch->args.beside[n];
    return NULL;
}

static gk_gpu_beside gpu_beside_of(const gk_gpu_args *args) {
    gk_gpu_beside beside = {.dst = args->dst, .a = args->a, .c = args->c, .dst_stride = args->dst_stride, .a_stride = args->a_stride, .width = args->width};
    memcpy(beside.plane, args->plane, sizeof beside.plane);
    return beside;
}

/* Products of the same activations: the blocks of the second follow those of the first. */
static bool gpu_join_products(gpu_launch *into, const gpu_launch *launch) {
    const gk_gpu_args *x = &into->args, *y = &launch->args;
    gk_gpu_beside *place = gpu_free_beside(into);
    if (!place || into->kernel != launch->kernel || !gpu_takes_products(launch->kernel) || into->grid[1] != launch->grid[1] || x->b != y->b ||
        x->b_stride != y->b_stride || x->norm != y->norm || x->scale != y->scale || x->depth != y->depth || x->rows != y->rows ||
        x->flags != y->flags || x->vector != y->vector || (uint64_t)(into->grid[0] + launch->grid[0]) * into->block > INT32_MAX)
        return false;
    *place = gpu_beside_of(y);
    into->grid[0] += launch->grid[0];
    return true;
}

/* The rotation of the queries with that of the keys, from the same table. */
static bool gpu_join_ropes(gpu_launch *into, const gpu_launch *launch) {
    const gk_gpu_args *x = &into->args, *y = &launch->args;
    if (into->kernel != GPU_KERNEL_rope || (launch->kernel != GPU_KERNEL_rope_kv_f32 && launch->kernel != GPU_KERNEL_rope_kv_f16) || x->b != y->d ||
        x->b_stride != y->d_stride || x->d_head != y->d_head || x->n_rot != y->n_rot || x->rows != y->rows || x->flags != y->flags)
        return false;
    gpu_launch both = *launch;
    both.args.beside[0] = gpu_beside_of(x); /* the width is that of all heads */
    gpu_cover(&both, (x->n_head + y->n_head_kv) * (y->d_head - y->n_rot / 2));
    *into = both;
    return true;
}

/* Adds the launch of `op` to that of the ops [first, op), if none depends on another. */
static bool gpu_join(gk_device *device, gpu_launch *into, const gk_op *first, const gk_op *op, const gpu_launch *launch) {
    for (const gk_op *before = first; before < op; before++)
        if (!gk_independent(&gpu_backend, device, before, op)) return false;
    return gpu_join_products(into, launch) || gpu_join_ropes(into, launch);
}

#endif
