#   cmake -DSOURCE=<vendor/gk> -DWORK=<folder> [-DGENERATOR=<name>] -P mutations.cmake
# Checks that the suite on the emulated Metal detects broken kernels and a broken host. Copies the sources, breaks one
# thing at a time, and fails unless gk-test fails with threads in one order or the other, or with every access watched.
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
file(COPY "${SOURCE}/src/core" "${SOURCE}/src/gpu" "${SOURCE}/src/cuda" "${SOURCE}/src/rocm" "${SOURCE}/src/metal" DESTINATION "${WORK}/source/src")

function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "mutations: ${what} failed\n${output}")
  endif()
endfunction()

run("configuring" "${CMAKE_COMMAND}" -S "${WORK}/source" -B "${WORK}/build" -G "${GENERATOR}" -DCMAKE_BUILD_TYPE=Debug
    -DCMAKE_C_FLAGS_DEBUG=-O1 -DCMAKE_CXX_FLAGS_DEBUG=-O1 -DGK_CPU=OFF -DGK_METAL=ON -DGK_BUILD_TESTS=ON -DGK_TEST_EMULATION=ON)
set(build "${CMAKE_COMMAND}" --build "${WORK}/build" --target gk-test-metal)
run("building" ${build})
set(folder "${WORK}/build/src/metal/tests")

# suite(<part> <order> <output variable>): 0 if it passes. Order `watched` checks every access.
function(suite part order output)
  set(library plain)
  if(order STREQUAL "watched")
    set(library watched)
  endif()
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -E env "LD_LIBRARY_PATH=${folder}/${library}" "GK_EMULATE_ORDER=${order}"
            "${folder}/gk-test-metal" --backend metal --only ${part}
    RESULT_VARIABLE code OUTPUT_QUIET ERROR_QUIET TIMEOUT 900)
  set(${output} "${code}" PARENT_SCOPE)
endfunction()

foreach(part IN ITEMS matmul attention small)
  foreach(order IN ITEMS forward watched)
    suite(${part} ${order} code)
    if(NOT code EQUAL 0)
      message(FATAL_ERROR "mutations: the ${part} part fails without a mutation (${order})")
    endif()
  endforeach()
endforeach()

set(survivors "")
set(count 0)
# mutate(<file> <part of the suite> <text> <replacement>): the text must occur exactly once.
function(mutate file part from to)
  set(path "${WORK}/source/src/metal/${file}")
  file(READ "${path}" original)
  string(FIND "${original}" "${from}" first)
  string(FIND "${original}" "${from}" last REVERSE)
  if(first EQUAL -1 OR NOT first EQUAL last)
    message(FATAL_ERROR "mutations: `${from}` does not occur exactly once in src/metal/${file}: update this script")
  endif()
  string(REPLACE "${from}" "${to}" mutated "${original}")
  file(WRITE "${path}" "${mutated}")
  run("building `${to}`" ${build})
  foreach(order IN ITEMS forward reverse watched)
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

# Epsilon, ids, a single row of b, ties, ranks, barriers, types; planes, nibbles, minima; causality, grouped heads.
mutate(kernels/rmsnorm.metal small "+ args.f[0])" ")")
mutate(kernels/embed.metal small "id < args.n[1]" "id <= args.n[1]")
mutate(kernels/elementwise.metal small "args.n[2] == 1u ? 0u : row" "row")
mutate(kernels/argmax.metal small "i < best_index[self])" "i > best_index[self])")
mutate(kernels/topk.metal small "chosen_index[other] < index" "chosen_index[other] > index")
mutate(kernels/topk.metal small "SET_COUNT(histogram[i], 0u);
        BARRIER;" "SET_COUNT(histogram[i], 0u);")
mutate(kernels/common.metal small "    for (uint i = 1u; i < WG / 32u; i++) largest = fmax(largest, partial[i]);
    BARRIER;" "    for (uint i = 1u; i < WG / 32u; i++) largest = fmax(largest, partial[i]);")
mutate(kernels/copy.metal small "#elif S1 == TYPE_F16" "#elif S1 == TYPE_BF16")
mutate(memory.c matmul "planes.offset[p] + first * planes.row_blocks" "planes.offset[p] + 0 * planes.row_blocks")
mutate(lower.c matmul "= gk_plane_units(&planes, p)" "= gk_plane_units(&planes, 1)")
mutate(kernels/weight.metal matmul "(quad < 4u ? word : word >> 4)" "(quad < 5u ? word : word >> 4)")
mutate(kernels/weight.metal matmul "float4(as_type<uchar4>(word)) - w.minimum" "float4(as_type<uchar4>(word))")
mutate(kernels/attention.metal attention "position <= pos + (first_row + r) / heads" "position < pos + (first_row + r) / heads + (r & 1u)")
mutate(kernels/attention.metal attention "uint head = kv_head * heads + row % heads;
        query" "uint head = kv_head * heads;
        query")

if(survivors)
  message(FATAL_ERROR "mutations: the suite did not notice:${survivors}")
endif()
message(STATUS "all ${count} mutations were caught")
