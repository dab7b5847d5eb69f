// What ends every matrix product: one element of a row of results, with what the flags add to its sum.
void store_sum(Floats dst, uint row, float sum) {
    if ((p.flags & BIAS) != 0u) sum += Floats(p.c).v[row];
    if ((p.flags & ACCUMULATE) != 0u) sum += dst.v[row];
    dst.v[row] = sum;
}
