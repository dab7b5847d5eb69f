// The results of the reductions for 1 .. WG, which the host compares with the known values.
KERNEL(subgroup_test) {
    __local float partial[WG];
    float sum = group_sum((float)(SELF + 1u), partial);
    float largest = group_max((float)(SELF + 1u), partial);
    if (SELF == 0u) {
        ((floats)DST)[0] = sum;
        ((floats)DST)[1] = largest;
    }
}
