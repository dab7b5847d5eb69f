FROM rocm/dev-ubuntu-22.04:6.3.4-complete AS build
ENV AMDGPU_TARGETS="gfx1030;gfx1100;gfx942"
COPY . /app
WORKDIR /app
RUN HIPCXX="$(hipconfig -l)/clang" HIP_PATH="$(hipconfig -R)" \
    cmake -S . -B build -DGGML_HIP=ON -DGGML_NATIVE=OFF -DAMDGPU_TARGETS="$AMDGPU_TARGETS" \
    && cmake --build build -j
FROM rocm/dev-ubuntu-22.04:6.3.4
COPY --from=build /app/build/bin /app
ENTRYPOINT ["/app/llama-server"]
