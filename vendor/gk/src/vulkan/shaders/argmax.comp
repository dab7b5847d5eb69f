#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
// One workgroup per row: the lowest index of the largest key. n: columns, rows. The arrays have the size of
// GKV_MAX_WORKGROUP of the host.
shared uint best_key[1024];
shared uint best_index[1024];

void main() {
    uint columns = p.n[0];
    uint rows = live_rows(p.n[1]);
    uint self = gl_LocalInvocationID.x;
    for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
        Floats a = floats(p.a, uint64_t(row) * p.a_stride);
        uint key = 0u;
        uint index = 0xffffffffu;
        for (uint i = self; i < columns; i += gl_WorkGroupSize.x) {
            uint k = order_key(a.v[i]);
            if (k > key || index == 0xffffffffu) {
                key = k;
                index = i;
            }
        }
        best_key[self] = key;
        best_index[self] = index;
        barrier();
        for (uint half_size = gl_WorkGroupSize.x / 2u; half_size != 0u; half_size /= 2u) {
            if (self < half_size) {
                uint k = best_key[self + half_size];
                uint i = best_index[self + half_size];
                // An invocation without elements has key 0 and the highest index, so it loses every comparison.
                if (k > best_key[self] || (k == best_key[self] && i < best_index[self])) {
                    best_key[self] = k;
                    best_index[self] = i;
                }
            }
            barrier();
        }
        if (self == 0u) Uints(p.dst).v[row] = best_index[0];
        barrier();
    }
}
