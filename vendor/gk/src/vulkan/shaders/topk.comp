#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
// The k largest elements of each row, one workgroup per row. Every element has a unique key, (order, ~index): a radix
// selection finds the smallest of the k largest keys, 8 bits a pass, and the k elements are then ranked against each
// other. Counts are integer sums, so the order of atomics does not matter. n: columns, rows, k.
shared uint histogram[256];
shared uint chosen_key[256];
shared uint chosen_index[256];
shared uint found;
shared uint digit;
shared uint above;

uint digit_of(uint key, uint index, uint pass) {
    return pass < 4u ? (key >> (24u - 8u * pass)) & 255u : (~index >> (24u - 8u * (pass - 4u))) & 255u;
}

void main() {
    uint columns = p.n[0];
    uint rows = live_rows(p.n[1]);
    uint k = p.n[2];
    uint self = gl_LocalInvocationID.x;
    for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
        Floats a = floats(p.a, uint64_t(row) * p.a_stride);
        uint limit_key = 0u, limit_index_bits = 0u; // the digits found so far
        uint wanted = k;
        for (uint pass = 0u; pass < 8u; pass++) {
            for (uint i = self; i < 256u; i += gl_WorkGroupSize.x) histogram[i] = 0u;
            barrier();
            for (uint i = self; i < columns; i += gl_WorkGroupSize.x) {
                uint key = order_key(a.v[i]);
                bool same = pass < 4u
                    ? (pass == 0u || (key >> (32u - 8u * pass)) == (limit_key >> (32u - 8u * pass)))
                    : (key == limit_key && (pass == 4u || (~i >> (64u - 8u * pass)) == (limit_index_bits >> (64u - 8u * pass))));
                if (same) atomicAdd(histogram[digit_of(key, i, pass)], 1u);
            }
            barrier();
            if (self == 0u) {
                uint d = 255u, sum = 0u;
                while (d > 0u && sum + histogram[d] < wanted) {
                    sum += histogram[d];
                    d--;
                }
                digit = d;
                above = sum;
            }
            barrier();
            wanted -= above;
            if (pass < 4u) limit_key |= digit << (24u - 8u * pass);
            else limit_index_bits |= digit << (24u - 8u * (pass - 4u));
            barrier();
        }
        if (self == 0u) found = 0u;
        barrier();
        for (uint i = self; i < columns; i += gl_WorkGroupSize.x) {
            uint key = order_key(a.v[i]);
            if (key > limit_key || (key == limit_key && ~i >= limit_index_bits)) {
                uint slot = atomicAdd(found, 1u);
                chosen_key[slot] = key;
                chosen_index[slot] = i;
            }
        }
        barrier();
        for (uint slot = self; slot < k; slot += gl_WorkGroupSize.x) {
            uint key = chosen_key[slot];
            uint index = chosen_index[slot];
            uint rank = 0u;
            for (uint other = 0u; other < k; other++) {
                uint other_key = chosen_key[other];
                if (other_key > key || (other_key == key && chosen_index[other] < index)) rank++;
            }
            Uints(p.dst + uint64_t(row) * p.dst_stride * 4).v[rank] = index;
            Uints(p.c + uint64_t(row) * p.c_stride * 4).v[rank] = Uints(p.a + uint64_t(row) * p.a_stride * 4).v[index];
        }
        barrier();
    }
}
