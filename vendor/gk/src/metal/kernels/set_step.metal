// Starts a run: the step block gets the numbers that came with the command. args.n: n_tok, pos, run.
KERNEL(set_step) {
    if (self < 4u) step_block[self] = args.n[self];
}
