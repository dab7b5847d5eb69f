/* gk_fuse: finds sequences of ops that a backend computes as one. Pure, except for the calls to `supports`.
 *
 * A fused op takes the place of the last of its parts (norms: of each product). So no op between a part and
 * that place may change what the part reads, or access what it writes. A tensor that is no longer written must not
 * be read by a later op, in this run or the next, before it is written again. */
#include "gk_internal.h"

enum {
    REACH = 16,    /* most ops between the first and the last part */
    PRODUCTS = 8,  /* most products of one norm */
    GONE = 0,      /* code of an op that became part of another */
    NOWHERE = -1
};

typedef struct pass {
    const gk_backend *backend;
    gk_device *device;
    gk_op *ops;
    uint32_t count;
} pass;

/* ---- which memory ops access ---- */

typedef struct span {
    const gk_buffer *buffer;
    uint64_t first, last; /* last = one past the end */
} span;

static span span_of(const pass *p, const gk_op *op, gk_operand operand) {
    const gk_tensor *t = gk_operand_of(op, operand);
    uint64_t bytes = 0;
    switch (t->buffer ? gk_operand_role(op, operand) : GK_ROLE_NONE) {
    case GK_ROLE_PLAIN: bytes = gk_tensor_span(t); break;
    case GK_ROLE_WEIGHT: bytes = p->backend->weight_bytes(p->device, t->type, t->ne[0], t->ne[1]); break;
    case GK_ROLE_CACHE: bytes = gk_row_bytes(t->type, t->ne[0]) * t->ne[1]; break;
    case GK_ROLE_NONE: break;
    }
    return (span){t->buffer, t->offset, t->offset + bytes};
}

static bool meet(span x, span y) {
    const uint64_t first = x.first > y.first ? x.first : y.first, last = x.last < y.last ? x.last : y.last;
    return x.buffer == y.buffer && first < last;
}

static bool reads(const pass *p, const gk_op *op, span s) {
    for (int operand = GK_DST; operand <= GK_D; operand++) {
        const bool only_written = gk_operand_written(op, (gk_operand)operand) && !(operand == GK_DST && (op->flags & GK_ACCUMULATE));
        if (!only_written && meet(span_of(p, op, (gk_operand)operand), s)) return true;
    }
    return false;
}

static bool writes(const pass *p, const gk_op *op, span s) {
    for (int operand = GK_DST; operand <= GK_D; operand++) {
        if (gk_operand_written(op, (gk_operand)operand) && meet(span_of(p, op, (gk_operand)operand), s)) return true;
    }
    return false;
}

/* Does the op write all elements of the tensor? For ops that do not read it. */
static bool overwrites(const gk_op *op, const gk_tensor *t) {
    const bool one_of_many = (op->flags & GK_LAST_ROW) && op->dst.ne[1] != 1;
    return gk_operand_role(op, GK_DST) == GK_ROLE_PLAIN && gk_same_slice(&op->dst, t) && !one_of_many;
}

bool gk_independent(const gk_backend *backend, gk_device *device, const gk_op *x, const gk_op *y) {
    const pass p = {.backend = backend, .device = device};
    for (int operand = GK_DST; operand <= GK_D; operand++) {
        if (writes(&p, x, span_of(&p, y, (gk_operand)operand)) || writes(&p, y, span_of(&p, x, (gk_operand)operand))) return false;
    }
    return true;
}

/* Is what op `writer` leaves in its dst never read after op `last`? A plan may run again, so the search continues at
 * its beginning. */
static bool is_dead(const pass *p, uint32_t writer, uint32_t last) {
    const gk_tensor *t = &p->ops[writer].dst;
    const span s = span_of(p, &p->ops[writer], GK_DST);
    for (uint32_t n = (last + 1) % p->count;; n = (n + 1) % p->count) {
        if (reads(p, &p->ops[n], s)) return false; /* includes the writer if it works in place */
        if (overwrites(&p->ops[n], t)) return true; /* the writer at the latest */
    }
}

/* Can op `part` run at the place of op `last` instead? True if no op in between changes what it reads or accesses
 * what it writes. */
static bool may_wait(const pass *p, uint32_t part, uint32_t last) {
    const gk_op *op = &p->ops[part];
    const span result = span_of(p, op, GK_DST);
    for (uint32_t n = part + 1; n < last; n++) {
        for (int operand = GK_A; operand <= GK_D; operand++) {
            if (writes(p, &p->ops[n], span_of(p, op, (gk_operand)operand))) return false;
        }
        if (reads(p, &p->ops[n], result) || writes(p, &p->ops[n], result)) return false;
    }
    return true;
}

/* The op with this code, and no flags except those in `flags`, whose dst is exactly this operand of op `reader`;
 * NOWHERE if another op wrote it last. */
static int64_t writer_of(const pass *p, uint32_t reader, gk_operand operand, uint16_t code, uint16_t flags) {
    const span s = span_of(p, &p->ops[reader], operand);
    for (uint32_t n = reader; n > 0 && reader - n < REACH; n--) {
        const gk_op *op = &p->ops[n - 1];
        if (!writes(p, op, s)) continue;
        const bool fits = op->code == code && (op->flags & ~flags) == 0 && gk_same_slice(&op->dst, gk_operand_of(&p->ops[reader], operand));
        return fits ? (int64_t)n - 1 : NOWHERE;
    }
    return NOWHERE;
}

static bool supported(const pass *p, const gk_op *op) { return p->backend->supports(p->device, op) == GK_OK; }

/* ---- the patterns ---- */

/* ROPE of the keys and the KV_WRITE at `last`. */
static void fuse_rope_kv(pass *p, uint32_t last) {
    const gk_op *write = &p->ops[last];
    const int64_t found = writer_of(p, last, GK_A, GK_OP_ROPE, GK_NEOX);
    if (found == NOWHERE) return;
    const uint32_t part = (uint32_t)found;
    const gk_op *rope = &p->ops[part];
    if (rope->i[0] != write->i[0] || rope->i[1] != write->i[1]) return;
    if (meet(span_of(p, rope, GK_DST), span_of(p, write, GK_B))) return; /* the keys are also the values */
    const gk_op fused = {.code = GK_OP_ROPE_KV, .flags = rope->flags, .tag = write->tag, .dst = write->dst, .a = rope->a,
                         .b = write->b, .c = write->c, .d = rope->b, .i = {write->i[0], write->i[1], rope->i[2]}};
    if (!may_wait(p, part, last) || !is_dead(p, part, last) || !supported(p, &fused)) return;
    p->ops[last] = fused;
    p->ops[part].code = GONE;
}

/* The two products before the SWIGLU at `last`. */
static void fuse_gate_up(pass *p, uint32_t last) {
    const gk_op *swiglu = &p->ops[last];
    const int64_t found[2] = {writer_of(p, last, GK_A, GK_OP_MATMUL, 0), writer_of(p, last, GK_B, GK_OP_MATMUL, 0)};
    if (found[0] == NOWHERE || found[1] == NOWHERE || found[0] == found[1]) return;
    const gk_op *gate = &p->ops[found[0]], *up = &p->ops[found[1]];
    if (!gk_same_slice(&gate->b, &up->b)) return;
    const gk_op fused = {.code = GK_OP_GATE_UP, .tag = swiglu->tag, .dst = swiglu->dst, .a = gate->a, .b = gate->b, .d = up->a};
    for (int n = 0; n < 2; n++) {
        const uint32_t part = (uint32_t)found[n];
        const bool kept = gk_same_slice(&p->ops[part].dst, &swiglu->dst);
        if (!may_wait(p, part, last) || !(kept || is_dead(p, part, last))) return;
    }
    if (!supported(p, &fused)) return;
    p->ops[last] = fused;
    p->ops[found[0]].code = p->ops[found[1]].code = GONE;
}

/* The product, MATMUL or GATE_UP, with the norm of its activations. */
static gk_op with_norm(const gk_op *norm, const gk_op *product) {
    gk_op fused = *product;
    fused.b = norm->a;
    fused.f[0] = norm->f[0];
    if (product->code == GK_OP_GATE_UP) {
        fused.c = norm->b;
    } else {
        fused.code = GK_OP_NORM_MATMUL;
        fused.d = norm->b;
    }
    return fused;
}

/* The RMSNORM at `first` and all products that read it, if no other op does. Products have no grouped norms. */
static void fuse_norm(pass *p, uint32_t first) {
    const gk_op *norm = &p->ops[first];
    const span normed = span_of(p, norm, GK_DST), source = span_of(p, norm, GK_A), weight = span_of(p, norm, GK_B);
    uint32_t products[PRODUCTS], count = 0, last = first;
    bool changed = false, ended = false;
    for (uint32_t n = first + 1; n < p->count && !ended; n++) {
        const gk_op *op = &p->ops[n];
        if (reads(p, op, normed)) {
            const bool product = op->code == GK_OP_MATMUL || (op->code == GK_OP_GATE_UP && !gk_norm_of(op));
            if (!product || !gk_same_slice(&op->b, &norm->dst) || meet(span_of(p, op, GK_C), normed)) return;
            if (changed || count == PRODUCTS || n - first > REACH) return;
            const gk_op fused = with_norm(norm, op);
            if (!supported(p, &fused)) return;
            products[count++] = n;
            last = n;
        }
        ended = overwrites(op, &norm->dst);
        if (!ended && writes(p, op, normed)) return;
        changed = changed || writes(p, op, source) || writes(p, op, weight);
    }
    if (count == 0 || !is_dead(p, first, last)) return;
    for (uint32_t n = 0; n < count; n++) p->ops[products[n]] = with_norm(norm, &p->ops[products[n]]);
    p->ops[first].code = GONE;
}

uint32_t gk_fuse(const gk_backend *backend, gk_device *device, const gk_op *in, uint32_t n, gk_op *out) {
    if (in == NULL || out == NULL || n == 0) return 0;
    memcpy(out, in, n * sizeof *out);
    bool valid = backend != NULL;
    for (uint32_t k = 0; k < n && valid; k++) valid = backend->supports(device, &in[k]) == GK_OK;
    if (!valid) return n; /* plan_build reports the reason */
    pass p = {backend, device, out, n};
    for (uint32_t k = 0; k < n; k++) {
        if (out[k].code == GK_OP_KV_WRITE) fuse_rope_kv(&p, k);
        if (out[k].code == GK_OP_SWIGLU) fuse_gate_up(&p, k);
    }
    /* Runs last: by now the products that share a SWIGLU are one. */
    for (uint32_t k = 0; k < n; k++) {
        if (out[k].code == GK_OP_RMSNORM) fuse_norm(&p, k);
    }
    uint32_t count = 0;
    for (uint32_t k = 0; k < n; k++) {
        if (out[k].code != GONE) out[count++] = out[k];
    }
    return count;
}
