// Ends a decode plan: passes the id on and advances the step block. n: elements of the history, 0 without one.
KERNEL(step) {
    uint id = ((__global const uint *)A)[0];
    ((__global uint *)B)[0] = id;
    if (RUN < n.s0) ((__global uint *)DST)[RUN] = id;
    POS += N_TOK;
    RUN += 1u;
}
