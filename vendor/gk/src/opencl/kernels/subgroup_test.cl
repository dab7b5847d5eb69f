// What the reductions give for 1 .. WG: the host knows the answer.
KERNEL(subgroup_test) {
    __local float partial[WG];
    float sum = group_sum((float)(SELF + 1u), partial);
    float largest = group_max((float)(SELF + 1u), partial);
    if (SELF == 0u) {
        ((floats)DST)[0] = sum;
        ((floats)DST)[1] = largest;
    }
}
