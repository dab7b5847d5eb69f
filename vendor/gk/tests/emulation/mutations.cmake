#   cmake -DSOURCE=<vendor/gk> -DWORK=<folder> [-DGENERATOR=<name>] [-DONLY=<file>] [-DCHECK=ON] -P mutations.cmake
# Checks that the suite on the emulated driver detects broken GPU kernels and hosts. Copies the sources, breaks one
# thing at a time, and fails unless gk-test fails with threads in one order or the other, or with every access watched.
# CHECK only checks that the sources still contain what is broken: that takes no time.
cmake_minimum_required(VERSION 3.24)
foreach(variable IN ITEMS SOURCE WORK)
  if(NOT ${variable})
    message(FATAL_ERROR "mutations.cmake: -D${variable}=... is missing")
  endif()
endforeach()
if(NOT GENERATOR)
  set(GENERATOR "Unix Makefiles")
endif()

file(REMOVE_RECURSE "${WORK}")
file(COPY "${SOURCE}/CMakeLists.txt" "${SOURCE}/cmake" "${SOURCE}/include" "${SOURCE}/tests" DESTINATION "${WORK}/source")
file(COPY "${SOURCE}/src/core" "${SOURCE}/src/gpu" "${SOURCE}/src/cuda" "${SOURCE}/src/rocm" DESTINATION "${WORK}/source/src")

function(run what)
  if(CHECK)
    return()
  endif()
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "mutations: ${what} failed\n${output}")
  endif()
endfunction()

run("configuring" "${CMAKE_COMMAND}" -S "${WORK}/source" -B "${WORK}/build" -G "${GENERATOR}" -DCMAKE_BUILD_TYPE=Debug
    -DCMAKE_C_FLAGS_DEBUG=-O1 -DCMAKE_CXX_FLAGS_DEBUG=-O1 -DGK_CPU=OFF -DGK_BUILD_TESTS=ON -DGK_TEST_EMULATION=ON)
set(build "${CMAKE_COMMAND}" --build "${WORK}/build" --target gk-emulated-cuda gk-watched-cuda gk-test-emulated gk-budget)
run("building" ${build})
set(folder "${WORK}/build/tests/emulation")

# suite(<part> <order> <output variable>): 0 if it passes. Order `watched` checks every access, `exact` uses the kernels
# of f32. The part `budget` compares what kernels access with budget.txt.
function(suite part order output)
  if(part STREQUAL "budget")
    execute_process(
      COMMAND "${CMAKE_COMMAND}" -E env "LD_LIBRARY_PATH=${folder}/watched" "${folder}/gk-budget" "${SOURCE}/tests/emulation/budget.txt"
      RESULT_VARIABLE code OUTPUT_QUIET ERROR_QUIET TIMEOUT 400)
    set(${output} "${code}" PARENT_SCOPE)
    return()
  endif()
  set(drivers drivers)
  set(exact "")
  if(order STREQUAL "watched")
    set(drivers watched)
  elseif(order STREQUAL "exact")
    set(exact --exact)
  endif()
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -E env "LD_LIBRARY_PATH=${folder}/${drivers}" "GK_EMULATE_ORDER=${order}"
            "${folder}/gk-test-emulated" --backend cuda --only ${part} ${exact}
    RESULT_VARIABLE code OUTPUT_QUIET ERROR_QUIET TIMEOUT 400)
  set(${output} "${code}" PARENT_SCOPE)
endfunction()

foreach(part IN ITEMS matmul fused attention small budget)
  foreach(order IN ITEMS forward watched)
    set(code 0)
    if(NOT CHECK)
      suite(${part} ${order} code)
    endif()
    if(NOT code EQUAL 0)
      message(FATAL_ERROR "mutations: the ${part} part fails without a mutation (${order})")
    endif()
  endforeach()
endforeach()

set(survivors "")
set(count 0)
# mutate(<file> <part of the suite> <text> <replacement>): the text must occur exactly once.
function(mutate file part from to)
  if(ONLY AND NOT file STREQUAL ONLY)
    return()
  endif()
  set(path "${WORK}/source/src/gpu/${file}")
  file(READ "${path}" original)
  string(FIND "${original}" "${from}" first)
  string(FIND "${original}" "${from}" last REVERSE)
  if(first EQUAL -1 OR NOT first EQUAL last)
    message(FATAL_ERROR "mutations: `${from}` does not occur exactly once in src/gpu/${file}: update this script")
  endif()
  if(CHECK)
    return()
  endif()
  string(REPLACE "${from}" "${to}" mutated "${original}")
  file(WRITE "${path}" "${mutated}")
  run("building `${to}`" ${build})
  foreach(order IN ITEMS forward exact reverse watched)
    suite(${part} ${order} code)
    if(NOT code EQUAL 0)
      break()
    endif()
  endforeach()
  file(WRITE "${path}" "${original}")
  math(EXPR count "${count} + 1")
  set(count ${count} PARENT_SCOPE)
  if(code EQUAL 0)
    message(STATUS "SURVIVED ${file}: ${from} -> ${to}")
    string(APPEND survivors "\n  ${file}: ${from} -> ${to}")
    set(survivors "${survivors}" PARENT_SCOPE)
  else()
    message(STATUS "caught   ${file}: ${from} -> ${to}")
  endif()
endfunction()

# Rows: epsilon, in-place safety, shared memory between two reductions, ties, NaN, ids, half of the pairs.
mutate(kernels/rows.cuh small "static_cast<float>(g.depth) + g.scale" "static_cast<float>(g.depth)")
mutate(kernels/rows.cuh small "expf(g.scale * in[i] - most) / sum" "expf(g.scale * in[i]) / sum")
mutate(kernels/rows.cuh small "static_cast<unsigned int>(id) < g.depth" "static_cast<unsigned int>(id) <= g.depth")
mutate(kernels/select.cuh small "(0xffffffffu - index);" "index;")
mutate(kernels/select.cuh small "if (value == value) {" "if (value == value || true) {")
mutate(kernels/select.cuh small "value == 0.0f ? 0.0f : value" "value")
mutate(kernels/select.cuh small "if ((x < y) == (i < other)) {" "if (x < y) {")
# Selection: where slices and lists begin and end, rows, lists without a partner, lists that one tile cannot hold.
mutate(kernels/select.cuh small "rank_of(in[i], begin + i)" "rank_of(in[i], i)")
mutate(kernels/select.cuh small "i < length ? rank_of" "i + 1 < length ? rank_of")
mutate(kernels/select.cuh small "(length + size - 1) / size * size" "length / size * size")
mutate(kernels/select.cuh small "order_pairs(ranks, count, sorted, 2 * sorted - 1)" "order_pairs(ranks, count, sorted, sorted)")
mutate(kernels/select.cuh small "(i ^ (size - 1))" "i")
mutate(kernels/select.cuh small "if (other > ranks[i]) ranks[i] = other;" "if (other > ranks[i] && i < pairs) ranks[i] = other;")
mutate(kernels/select.cuh small "pairs = lists / 2" "pairs = (lists + 1) / 2")
mutate(kernels/select.cuh small "order_pairs(ranks, pairs * size, distance, distance)" "order_pairs(ranks, size, distance, distance)")
mutate(kernels/select.cuh small "static_cast<size_t>(row) * gridDim.x + blockIdx.x" "blockIdx.x")
mutate(kernels/select.cuh small "merge_lists(ranks, kept + length, size);" "merge_lists(ranks, length, size);")
mutate(kernels/select.cuh small "kept = size;" "kept = 0;")
mutate(kernels/select.cuh small "begin += length;" "begin += GK_GPU_SELECT_TILE;")
mutate(launch.h small "lists == 1 ? 0 : (uint64_t)gk_op_rows(op) * lists" "lists == 1 ? 0 : (uint64_t)lists")
mutate(launch.h small "if (op->code == GK_OP_ARGMAX) launch.args.dst_stride = 1;" "")
mutate(launch.h small "launch->args.b_stride = 0;" "launch->args.b_stride = launch->args.b_stride + 0;")
# Matmul: planes, signs, edges, flags, the last row, barriers.
mutate(device.h matmul "begin = first * planes->row_blocks" "begin = 0 * planes->row_blocks")
mutate(device.h matmul "planes->offset[p] + begin * planes->bytes[p]" "planes->offset[p] + begin * planes->bytes[0]")
mutate(launch.h matmul "launch->args.plane[p - 1] = gk_plane_units(&planes, p)" "launch->args.plane[p - 1] = gk_plane_units(&planes, 1)")
mutate(kernels/weight.cuh matmul "word ^ 0x80808080u" "word")
mutate(kernels/weight.cuh matmul "(q < 4 ? word : word >> 4)" "(q < 5 ? word : word >> 4)")
mutate(kernels/weight.cuh matmul "element / 32 * 16 + element % 16" "element / 32 * 16 + (element % 16 ^ 4)")
mutate(kernels/weight.cuh matmul "p.scale[0] * quant_to_float(four, i, 0) - p.minimum" "p.scale[0] * quant_to_float(four, i, 0)")
mutate(kernels/weight.cuh matmul "static_cast<float>((low & 15u) | (high & 3u) << 4)" "static_cast<float>(low & 15u)")
mutate(kernels/weight.cuh matmul "(high & 12u) << 2" "(high & 3u) << 4")
mutate(kernels/weight.cuh matmul "(j < 4 ? all.y : all.z)" "all.y")
mutate(kernels/weight.cuh matmul "high_bits(p.high[q / 4], static" "high_bits(p.high[0], static")
mutate(kernels/weight.cuh matmul "p.scale[1] = factor(w, element + 16, p.minimum)" "p.scale[1] = p.scale[0]")
mutate(kernels/weight.cuh matmul "reinterpret_cast<const signed char *>" "reinterpret_cast<const unsigned char *>")
mutate(kernels/weight.cuh matmul "static_cast<unsigned int>(bits) << 16" "(static_cast<unsigned int>(bits) & 0x7fffu) << 16")
mutate(kernels/weight.cuh small "T::word4(w, element / 4 * 4) >> (8 * (element % 4))" "T::word4(w, element / 4 * 4) >> (8 * (element % 4 & 2))")
mutate(kernels/platform.cuh matmul "0x7650u + static_cast<unsigned int>(index)" "0x7650u + static_cast<unsigned int>(index ^ 1)")
mutate(kernels/matmul.cuh matmul "k = whole + lane; k < g.depth;" "k = whole + lane; k + 1 < g.depth;")
mutate(kernels/matmul.cuh matmul "last ? tokens(g) - 1 : blockIdx.y * COLUMNS" "last ? g.rows - 1 : blockIdx.y * COLUMNS")
mutate(kernels/matmul.cuh matmul "if (t < used && r < g.width)" "if (r < g.width)")
mutate(kernels/matmul.cuh matmul "        __syncthreads();\n    }" "    }")
# Products in integers, and on matrix units: rounding, offsets, the end of k, factors, fragments.
mutate(kernels/dot.cuh matmul "float_to_bits(v[i] * factor + 12582912.0f)" "float_to_bits(floorf(v[i] * factor) + 12582912.0f)")
mutate(kernels/dot.cuh matmul "int total = -W::DOT_OFFSET * ones;" "int total = 0;")
mutate(kernels/dot.cuh matmul "if (W::MINIMUM) value -=" "if (false) value -=")
mutate(kernels/dot.cuh matmul "if (at >= count) continue;" "if (at > count) continue;")
mutate(kernels/dot.cuh fused "v[i] *= factors[i];" "if (i != 1) v[i] *= factors[i];")
mutate(kernels/dot.cuh fused "k0 == 0 ? more : squares[c] + more" "more")
mutate(kernels/dot.cuh fused "group == blockIdx.x || g.depth > inputs::SPAN" "group == blockIdx.x")
mutate(kernels/dot.cuh fused "(more ? next : 0)" "next")
mutate(kernels/mma.cuh matmul "exponent > 240u ? 240u : exponent" "127u")
mutate(kernels/mma.cuh matmul "wait_for_tile(gates + step % 2, step / 2 % 2);" "")
mutate(kernels/mma.cuh matmul "__syncthreads(); // nobody reads" "// nobody reads")
mutate(kernels/mma.cuh matmul "left[i], right[2], right[3]" "left[i], right[3], right[2]")
mutate(kernels/mma.cuh matmul "quad / g.quads % 4" "quad / 8 % 4")
mutate(kernels/mma.cuh fused "if (g.flags & GK_ACCUMULATE) value[r] += out[row0 + r * 8];" "")
mutate(kernels/attention_mma.cuh attention "lane % 4 * 2 + e > seen" "lane % 4 * 2 + e > seen + 1")
mutate(kernels/attention_mma.cuh attention "value[d][e] *= keep[e / 2];" "value[d][e] *= keep[0];")
mutate(kernels/split_mma.cuh attention "column * 2 + e >= end" "column * 2 + e > end")
mutate(kernels/split_mma.cuh attention "to[e] *= keep[e / 2];" "to[e] *= keep[0];")
mutate(kernels/split_mma.cuh attention "d % 2 == 0 ? 0x5410u : 0x7632u" "0x5410u")
# Fused ops: the second weight, the gate, rows per warp; the row of the table, elements that
# are not rotated.
mutate(kernels/matmul.cuh fused "place_of(g, GATED ? g.d : g.a)};
#pragma unroll
    for (int i" "place_of(g, g.a)};
#pragma unroll
    for (int i")
mutate(kernels/matmul.cuh fused "silu_of(value) * warp_sum" "value * warp_sum")
mutate(kernels/matmul.cuh fused "W::one(weights[r / ROWS]," "W::one(weights[0],")
mutate(launch.h fused "gated ? lines / 2 : lines" "lines")
# Joined launches: which rows belong to which product, its bias; the queries after the keys; order.
mutate(kernels/matmul.cuh fused "group < groups) break" "group <= groups) break")
mutate(kernels/matmul.cuh fused "own.c = g.beside[n].c;" "")
mutate(kernels/rows.cuh fused "query, rotated, item - own" "query, rotated, item")
mutate(join.h fused "if (!gk_independent(&gpu_backend, device, before, op)) return false;" "")
mutate(kernels/rows.cuh fused "static_cast<size_t>(where) * g.d_stride" "static_cast<size_t>(row) * g.d_stride")
mutate(kernels/rows.cuh fused "store_element(keys + pairs + i, key[pairs + i]);" "")
mutate(kernels/rows.cuh fused "store_element(values + second, value[second]);" "")
mutate(kernels/rows.cuh fused "store_element(keys + second, x * sine + y * cosine);" "store_element(keys + second, x * sine - y * cosine);")
# Attention: causality, splits, grouped heads, rope.
mutate(kernels/attention.cuh attention "p0 + p <= visible" "p0 + p < visible + (token % 2)")
mutate(kernels/attention.cuh attention "begin + length < positions ? begin + length" "begin + length < positions ? begin + length - 1")
mutate(kernels/attention.cuh attention "const unsigned int head0 = blockIdx.x * group + query0;" "const unsigned int head0 = blockIdx.x * group;")
mutate(kernels/attention.cuh attention "__syncthreads(); // the values of the tile before are no longer read" "")
mutate(kernels/attention.cuh attention "sum *= keep;" "")
mutate(kernels/rows.cuh attention "static_cast<size_t>(position(g) + row) * g.b_stride" "static_cast<size_t>(row) * g.b_stride")
mutate(kernels/rows.cuh attention "(g.flags & GK_NEOX) ? pairs : 1" "(g.flags & GK_NEOX) ? pairs - 1 : 1")

# Mutations that no result shows: barriers that these thread orders do not need, and a write by two lanes.
mutate(kernels/select.cuh small "ranks[other] = x;
        }
    }
    __syncthreads();" "ranks[other] = x;
        }
    }")
mutate(kernels/select.cuh small "        __syncthreads();
        sort_lists" "        sort_lists")
mutate(kernels/select.cuh small "            __syncthreads();
            merge_lists" "            merge_lists")
mutate(kernels/select.cuh small "ranks[i] = other;
        }
        __syncthreads();" "ranks[i] = other;
        }")
mutate(kernels/attention.cuh attention "__syncthreads(); // scores are complete, keys no longer read" "")
mutate(kernels/attention.cuh attention "lane == 0) {" "lane <= 1) {")
mutate(kernels/attention.cuh attention "shared_query[q * PITCH + element] = token0 + q < rows ?" "if (q > 0) shared_query[q * PITCH + element] = token0 + q < rows ?")
# Mutations that only cost time: bank conflicts, fewer blocks, values that are loaded again.
mutate(kernels/select.cuh budget "low & 16 ? mask : 0" "0")
mutate(args.h budget "((piece) ^ (row) % 8)" "(piece)")
mutate(launch.h budget "units > least ? units : least" "most")
mutate(kernels/rows.cuh budget "if (i < g.depth) out[i] = kept[n] * factor * factors[n];" "if (i < g.depth) out[i] = in[i] * factor * factors[n];")

if(survivors)
  message(FATAL_ERROR "mutations: the suite did not notice:${survivors}")
endif()
if(NOT CHECK)
  message(STATUS "all ${count} mutations were caught")
endif()
