// 16 x 16 matrices distributed over a subgroup, multiplied by a device instruction from the shared arrays `weights` and
// `tokens`: rows of PITCH pairs of halves. With EMULATE_MATRICES, for tests only, the same in plain GLSL.
#ifdef EMULATE_MATRICES
#define PAIR uint
#define WEIGHT_MATRIX uint // start of the matrix: its elements are read when it is multiplied
#define TOKEN_MATRIX uint
struct SumMatrix {
    float v[256 / SUBGROUP]; // elements lane, lane + SUBGROUP, ... with 16 rows side by side
};
#define SUM_MATRIX SumMatrix
#define LOAD_WEIGHTS(matrix, at) matrix = at
#define LOAD_TOKENS(matrix, at) matrix = at
#define MULTIPLY_ADD(sum, a, b) multiply_add(sum, a, b)
#define STORE_SUM(sum, array, at) \
    for (uint element = lane(); element < 256u; element += SUBGROUP) array[at + element] = sum.v[element / SUBGROUP]
#define ZERO_SUM(sum) \
    for (uint i = 0u; i < 256u / SUBGROUP; i++) sum.v[i] = 0.0
uint pair_of(uint bits) { return bits; }
#else
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#define PAIR f16vec2
#define WEIGHT_MATRIX coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define TOKEN_MATRIX coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define SUM_MATRIX coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
#define LOAD_WEIGHTS(matrix, at) coopMatLoad(matrix, weights, at, PITCH, gl_CooperativeMatrixLayoutRowMajor)
#define LOAD_TOKENS(matrix, at) coopMatLoad(matrix, tokens, at, PITCH, gl_CooperativeMatrixLayoutColumnMajor)
#define MULTIPLY_ADD(sum, a, b) sum = coopMatMulAdd(a, b, sum)
#define STORE_SUM(sum, array, at) coopMatStore(sum, array, at, 16, gl_CooperativeMatrixLayoutColumnMajor)
#define ZERO_SUM(sum) sum = SUM_MATRIX(0.0)
f16vec2 pair_of(uint bits) { return unpackFloat2x16(bits); }
#endif

const uint BLOCK_K = 32;
const uint PITCH = BLOCK_K / 2 + 4; // padded against bank conflicts; a multiple of 16 bytes
shared PAIR weights[64 * PITCH];
shared PAIR tokens[64 * PITCH];

#ifdef EMULATE_MATRICES
void multiply_add(inout SumMatrix sum, uint a, uint b) {
    [[dont_unroll]] for (uint i = 0u; i < 256u / SUBGROUP; i++) {
        uint element = lane() + i * SUBGROUP;
        [[unroll]] for (uint k = 0u; k < 8u; k++) // llvmpipe ends a shader after 65,535 loop iterations
            sum.v[i] += dot(unpackHalf2x16(weights[a + element % 16u * PITCH + k]), unpackHalf2x16(tokens[b + element / 16u * PITCH + k]));
    }
}
#endif
