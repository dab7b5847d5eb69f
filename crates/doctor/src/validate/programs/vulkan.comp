#version 450
layout(local_size_x = 64) in;
layout(std430, set = 0, binding = 0) buffer A { float a[]; };
layout(std430, set = 0, binding = 1) readonly buffer B { float b[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    a[i] += b[i];
}
