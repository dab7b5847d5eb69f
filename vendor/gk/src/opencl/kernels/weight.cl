// Weights as weight_put lays them out: f32 and f16 rows as they are; q8_0 as a plane of quants, rows * k bytes, and
// at EXTRA a plane of f16 scales. A chunk is the 16 bytes that one work-item reads at once.
// S1: rows of weights and activations are multiples of a chunk and aligned, so that whole chunks may be loaded.
#define WEIGHT_TYPE S0
#define ALIGNED S1

#if WEIGHT_TYPE == TYPE_F32
#define QUADS 1
#elif WEIGHT_TYPE == TYPE_F16
#define QUADS 2
#else
#define QUADS 4
#endif
#define CHUNK (QUADS * 4)

// Four elements of a row of f32; those at `limit` and after it are 0.
float4 load_quad(const_floats row, uint element, uint limit) {
#if ALIGNED
    return *(__global const float4 *)(row + element);
#else
    float4 value = (float4)(0.0f);
    if (element < limit) value.s0 = row[element];
    if (element + 1u < limit) value.s1 = row[element + 1u];
    if (element + 2u < limit) value.s2 = row[element + 2u];
    if (element + 3u < limit) value.s3 = row[element + 3u];
    return value;
#endif
}

float4 load_half_quad(const_bytes row, uint element, uint limit) {
#if ALIGNED
    return vload_half4(element / 4u, (__global const half *)row);
#else
    float4 value = (float4)(0.0f);
    if (element < limit) value.s0 = load_half(row, element);
    if (element + 1u < limit) value.s1 = load_half(row, element + 1u);
    if (element + 2u < limit) value.s2 = load_half(row, element + 2u);
    if (element + 3u < limit) value.s3 = load_half(row, element + 3u);
    return value;
#endif
}

// Chunk number `chunk` of row `row`, k elements long; elements past the end are 0.
void load_weight(const_bytes weight, const_bytes scales, uint row, uint chunk, uint k, float4 *w) {
    ulong first = (ulong)row * k;
#if WEIGHT_TYPE == TYPE_F32
    w[0] = load_quad((const_floats)(weight + first * 4), chunk * 4u, k);
#elif WEIGHT_TYPE == TYPE_F16
    w[0] = load_half_quad(weight + first * 2, chunk * 8u, k);
    w[1] = load_half_quad(weight + first * 2, chunk * 8u + 4u, k);
#else
    // k is a multiple of 32, so these rows are always aligned.
    char16 q = *(__global const char16 *)(weight + first + chunk * 16u);
    float scale = load_half(scales, (first + chunk * 16u) / 32u);
    w[0] = scale * convert_float4(q.s0123);
    w[1] = scale * convert_float4(q.s4567);
    w[2] = scale * convert_float4(q.s89ab);
    w[3] = scale * convert_float4(q.scdef);
#endif
}

// Four neighbouring elements of a row of the weight.
float4 load_weight_quad(const_bytes weight, const_bytes scales, uint row, uint element, uint k) {
    ulong first = (ulong)row * k;
#if WEIGHT_TYPE == TYPE_F32
    return load_quad((const_floats)(weight + first * 4), element, k);
#elif WEIGHT_TYPE == TYPE_F16
    return load_half_quad(weight + first * 2, element, k);
#else
    return load_half(scales, (first + element) / 32u) * convert_float4(*(__global const char4 *)(weight + first + element));
#endif
}
