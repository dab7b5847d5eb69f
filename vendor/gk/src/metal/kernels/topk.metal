// The k largest elements of each row, one threadgroup per row. Every element has a unique key, (order, ~index): a radix
// selection finds the smallest of the k largest keys, 8 bits a pass, and the k elements are then ranked against each
// other. Counts are integer sums, so the order of atomics does not matter. args.n: columns, rows, k.
#define COUNT_UP(counter) atomic_fetch_add_explicit(&(counter), 1u, memory_order_relaxed)
#define COUNT_OF(counter) atomic_load_explicit(&(counter), memory_order_relaxed)
#define SET_COUNT(counter, value) atomic_store_explicit(&(counter), value, memory_order_relaxed)

inline uint digit_of(uint key, uint index, uint pass) {
    return pass < 4u ? (key >> (24u - 8u * pass)) & 255u : (~index >> (24u - 8u * (pass - 4u))) & 255u;
}

KERNEL(topk) {
    SHARED atomic_uint histogram[256];
    SHARED atomic_uint found;
    SHARED uint chosen_key[256];
    SHARED uint chosen_index[256];
    SHARED uint digit;
    SHARED uint above;
    uint columns = args.n[0];
    uint k = args.n[2];
    uint row = group.x;
    if (row >= LIVE_ROWS(args.n[1])) return;
    device const float *a = ROW(a_base, row, A_STRIDE);
    uint limit_key = 0u, limit_index_bits = 0u; // the digits found so far
    uint wanted = k;
    for (uint pass = 0u; pass < 8u; pass++) {
        for (uint i = self; i < 256u; i += WG) SET_COUNT(histogram[i], 0u);
        BARRIER;
        for (uint i = self; i < columns; i += WG) {
            uint key = order_key(a[i]);
            bool same;
            if (pass < 4u) same = pass == 0u || (key >> (32u - 8u * pass)) == (limit_key >> (32u - 8u * pass));
            else same = key == limit_key && (pass == 4u || (~i >> (64u - 8u * pass)) == (limit_index_bits >> (64u - 8u * pass)));
            if (same) COUNT_UP(histogram[digit_of(key, i, pass)]);
        }
        BARRIER;
        if (self == 0u) {
            uint d = 255u, sum = 0u;
            while (d > 0u && sum + COUNT_OF(histogram[d]) < wanted) {
                sum += COUNT_OF(histogram[d]);
                d--;
            }
            digit = d;
            above = sum;
        }
        BARRIER;
        wanted -= above;
        if (pass < 4u) limit_key |= digit << (24u - 8u * pass);
        else limit_index_bits |= digit << (24u - 8u * (pass - 4u));
        BARRIER;
    }
    if (self == 0u) SET_COUNT(found, 0u);
    BARRIER;
    for (uint i = self; i < columns; i += WG) {
        uint key = order_key(a[i]);
        if (key > limit_key || (key == limit_key && ~i >= limit_index_bits)) {
            uint slot = COUNT_UP(found);
            chosen_key[slot] = key;
            chosen_index[slot] = i;
        }
    }
    BARRIER;
    for (uint slot = self; slot < k; slot += WG) {
        uint key = chosen_key[slot];
        uint index = chosen_index[slot];
        uint rank = 0u;
        for (uint other = 0u; other < k; other++) {
            uint other_key = chosen_key[other];
            if (other_key > key || (other_key == key && chosen_index[other] < index)) rank++;
        }
        ((device uint *)ROW(dst_base, row, DST_STRIDE))[rank] = index;
        ((device uint *)ROW(c_base, row, C_STRIDE))[rank] = ((device const uint *)a)[index];
    }
}
