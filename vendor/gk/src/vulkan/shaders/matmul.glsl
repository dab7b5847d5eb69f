// The end of every matrix product: stores one element of a result row and applies the flags to its sum.
void store_sum(Floats dst, uint row, float sum) {
    if ((p.flags & BIAS) != 0u) sum += Floats(p.c).v[row];
    if ((p.flags & ACCUMULATE) != 0u) sum += dst.v[row];
    dst.v[row] = sum;
}
