// The registers of matrix units, behind one set of names for mma.cuh and attention_mma.cuh. A square has 16 x 16 elements;
// multiply_add_square() adds to it the product of a left and a right factor, each with 16 rows of 16 elements of k.
//
//   MMA_HELD, MMA_WORDS     if 16 rows are cut into four pieces each, so many are in a lane, in two words (four elements) each
//   held_row, held_piece    row and piece of held piece h of a lane; its words are h and MMA_HELD + h of the factor
//   MMA_COLUMNS, MMA_SUMS   columns of one part of a square of sums, and elements of it in a lane; a square has 16 / MMA_COLUMNS parts
//   MMA_ROWS                rows of these elements: the first MMA_SUMS / MMA_ROWS are of sum_row(lane, 0), the next of sum_row(lane, 1)
//   sum_row, sum_column     row n of the sums of a lane; column of element e of a row
//   row_max, row_sum        over the lanes with the same rows
//   left_of_sums            a square of sums as the left factor of the next product, rounded to f16
//   load_matrix...          factors from shared memory
//
// AMD: places as printed by AMD's matrix instruction calculator for V_MFMA_F32_16X16X16_F16 (CDNA 2 and 3) and, for waves of 32,
// V_WMMA_F32_16X16X16_F16 (RDNA 3 and 4); bf16 has the same. In both factors, lane l has row l % 16. Of k it has
//   CDNA    four elements, from 4 * (l / 16) on
//   RDNA 3  all; both halves of the wave have the same
//   RDNA 4  eight, and the halves share the 16: which ones does not matter here, because it is the same in both factors
// Element e of the sums is in column l % 16 and in row 4 * (l / 16) + e on CDNA, 2 * e + l / 16 on RDNA 3, 8 * (l / 16) + e on RDNA 4.
// The instruction is called with its factors exchanged: rows here are its columns, so neighbouring lanes store neighbouring outputs.
#ifndef GK_GPU_FRAGMENTS_CUH
#define GK_GPU_FRAGMENTS_CUH

#if GK_MMA == GK_MMA_NVIDIA
enum { MMA_HELD = 2, MMA_WORDS = 4, MMA_SUMS = 4, MMA_COLUMNS = 8, MMA_ROWS = 2, MMA_NEXT_LANE = 1, MMA_LANES = 4 };
GK_DEVICE unsigned int held_row(unsigned int lane, unsigned int h) { return lane / 4 + h * 8; }
GK_DEVICE unsigned int held_piece(unsigned int lane, unsigned int) { return lane % 4; }
GK_DEVICE unsigned int sum_row(unsigned int lane, unsigned int n) { return lane / 4 + n * 8; }
GK_DEVICE unsigned int sum_column(unsigned int lane, unsigned int e) { return lane % 4 * 2 + e; }

template <bool BF16> GK_DEVICE void multiply_add_square(float (*sum)[4], const unsigned int (&left)[4], const unsigned int (&right)[4]) {
    multiply_add<BF16>(sum[0], left, right[0], right[1]);
    multiply_add<BF16>(sum[1], left, right[2], right[3]);
}

GK_DEVICE void left_of_sums(const float (*sum)[4], unsigned int, unsigned int (&left)[4]) {
#pragma unroll
    for (int w = 0; w < 4; ++w) left[w] = pack_sixteen<false>(sum[w / 2][w % 2 * 2], sum[w / 2][w % 2 * 2 + 1]);
}
#elif GK_MMA
#if GK_MMA == GK_MMA_CDNA
enum { MMA_HELD = 1, MMA_SUMS = 4 };
#elif GK_MMA == GK_MMA_RDNA3
enum { MMA_HELD = 4, MMA_SUMS = 8 };
#else
enum { MMA_HELD = 2, MMA_SUMS = 8 };
#endif
enum { MMA_COLUMNS = 16, MMA_ROWS = 1, MMA_WORDS = 2 * MMA_HELD, MMA_NEXT_LANE = 16, MMA_LANES = GK_WARP / 16 };

// The first of the lane's elements of k.
GK_DEVICE unsigned int first_of(unsigned int lane) { return GK_MMA == GK_MMA_RDNA3 ? 0 : lane / 16 * MMA_HELD * 4; }
GK_DEVICE unsigned int held_row(unsigned int lane, unsigned int) { return lane % 16; }
GK_DEVICE unsigned int held_piece(unsigned int lane, unsigned int h) { return first_of(lane) / 4 + h; }
GK_DEVICE unsigned int sum_row(unsigned int lane, unsigned int) { return lane % 16; }
GK_DEVICE unsigned int sum_column(unsigned int lane, unsigned int e) {
    return GK_MMA == GK_MMA_RDNA3 ? 2 * e + lane / 16 : lane / 16 * MMA_SUMS + e;
}

template <bool BF16>
GK_DEVICE void multiply_add_square(float (*sum)[MMA_SUMS], const unsigned int (&left)[MMA_WORDS], const unsigned int (&right)[MMA_WORDS]) {
    amd_matrix<BF16>(sum[0], right, left);
}

GK_DEVICE void left_of_sums(const float (*sum)[MMA_SUMS], unsigned int lane, unsigned int (&left)[MMA_WORDS]) {
#pragma unroll
    for (int w = 0; w < MMA_SUMS / 2; ++w) left[w] = pack_sixteen<false>(sum[0][2 * w], sum[0][2 * w + 1]);
#if GK_MMA == GK_MMA_RDNA3 // columns 2 * e are in one half of the wave, columns 2 * e + 1 in the other
#pragma unroll
    for (int w = 3; w >= 0; --w) {
        const unsigned int own = left[w], other = float_to_bits(shuffle_xor(bits_to_float(own), 16));
        const unsigned int even = lane < 16 ? own : other, odd = lane < 16 ? other : own;
        left[2 * w] = select_bytes(even, odd, 0x5410u);
        left[2 * w + 1] = select_bytes(even, odd, 0x7632u);
    }
#else
    (void)lane;
#endif
}

// Elements of k in their order.
GK_DEVICE void load_matrix(const unsigned short *at, unsigned int pitch, unsigned int lane, unsigned int (&out)[MMA_WORDS]) {
    struct alignas(MMA_WORDS == 2 ? 8 : 16) row { unsigned int word[MMA_WORDS]; };
    const row mine = *reinterpret_cast<const row *>(at + lane % 16 * pitch + first_of(lane));
#pragma unroll
    for (int w = 0; w < MMA_WORDS; ++w) out[w] = mine.word[w];
}
GK_DEVICE void load_matrix_right(const unsigned short *at, unsigned int pitch, unsigned int lane, unsigned int (&out)[MMA_WORDS]) {
    load_matrix(at, pitch, lane, out);
}
// With rows and columns exchanged.
GK_DEVICE void load_matrix_transposed(const unsigned short *at, unsigned int pitch, unsigned int lane, unsigned int (&out)[MMA_WORDS]) {
#pragma unroll
    for (int w = 0; w < MMA_WORDS; ++w) {
        const unsigned short *two = at + (first_of(lane) + 2 * w) * pitch + lane % 16;
        out[w] = two[0] | static_cast<unsigned int>(two[pitch]) << 16;
    }
}
// Rows `row` and on, pieces `piece` and on, of a matrix in the order of sixteen_rows() and GK_GPU_EXCHANGED.
GK_DEVICE void load_matrix_exchanged(const unsigned short *matrix, unsigned int row, unsigned int piece, unsigned int lane, unsigned int (&out)[MMA_WORDS]) {
#pragma unroll
    for (int w = 0; w < MMA_WORDS; ++w) {
        const unsigned short *eight = matrix + GK_GPU_EXCHANGED(row + lane % 16, piece + w / MMA_HELD);
        out[w] = reinterpret_cast<const unsigned int *>(eight)[held_piece(lane, w % MMA_HELD)];
    }
}
#endif

#if GK_MMA
GK_DEVICE float row_max(float value) {
#pragma unroll
    for (int mask = MMA_NEXT_LANE; mask < MMA_NEXT_LANE * MMA_LANES; mask *= 2) value = fmaxf(value, shuffle_xor(value, mask));
    return value;
}
GK_DEVICE float row_sum(float value) {
#pragma unroll
    for (int mask = MMA_NEXT_LANE; mask < MMA_NEXT_LANE * MMA_LANES; mask *= 2) value += shuffle_xor(value, mask);
    return value;
}

#ifndef GK_TILE_COPIES // instructions that copy to shared memory
template <int GATES> GK_DEVICE void open_gates(unsigned long long *) {}
template <int COUNT, int THREADS> GK_DEVICE void copy_tile(unsigned short *to, const unsigned short *from, bool any, unsigned long long *) {
    if (!any) return;
#pragma unroll
    for (int i = 0; i < COUNT / 8 / THREADS; ++i) {
        const unsigned int item = (threadIdx.x + i * THREADS) * 8;
        *reinterpret_cast<uint4 *>(to + item) = *reinterpret_cast<const uint4 *>(from + item);
    }
}
GK_DEVICE void wait_for_tile(unsigned long long *, unsigned int) { __syncthreads(); }
#endif

#ifndef GK_GROUP_MMA
#define GK_GROUP_MMA 0
template <class L, class S> GK_DEVICE void begin_products(L &, S &) {}
template <class L, class S> GK_DEVICE void end_products(L &, S &) {}
#endif
#endif

#endif
