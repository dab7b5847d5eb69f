// Starts a run: copies the numbers in its arguments to the step block. args.n: n_tok, pos, run.
KERNEL(set_step) {
    if (self < 4u) step_block[self] = args.n[self];
}
