#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
// Ends a decode plan: passes the id on and advances the step block. n: elements of the history, 0 without one.
void main() {
    if (gl_GlobalInvocationID.x != 0u) return;
    Step step = Step(p.step);
    uint id = Uints(p.a).v[0];
    Uints(p.b).v[0] = id;
    if (step.run < p.n[0]) Uints(p.dst).v[step.run] = id;
    step.pos += step.n_tok;
    step.run += 1u;
}
