// Ends a decode plan: passes the id on and advances the step block. args.n: elements of the history, 0 without one.
KERNEL(step) {
    if (self != 0u) return;
    uint id = ((device const uint *)a_base)[0];
    ((device uint *)b_base)[0] = id;
    if (RUN < args.n[0]) ((device uint *)dst_base)[RUN] = id;
    POS += N_TOK;
    RUN += 1u;
}
