# syntax=docker/dockerfile:1.7
ARG CUDA_VERSION=12.4.1
ARG UBUNTU_VERSION=22.04

FROM nvidia/cuda:${CUDA_VERSION}-base-ubuntu${UBUNTU_VERSION} AS build

# The compiler is expected to be in the image.
RUN --mount=type=cache,target=/var/cache/apt <<EOF
set -eux
apt-get update
apt-get install -y cmake ninja-build g++ git
EOF

WORKDIR /app
COPY . .
RUN cmake -S . -B build -G Ninja \
      -DCMAKE_BUILD_TYPE=Release \
      # all of the data centre cards
      -DGGML_NATIVE=OFF \
      -DGGML_CUDA=ON \
      -DCMAKE_CUDA_ARCHITECTURES="70;80;90" \
 && cmake --build build --config Release -j "$(nproc)"

FROM nvidia/cuda:${CUDA_VERSION}-runtime-ubuntu${UBUNTU_VERSION}
COPY --from=build /app/build/bin /usr/local/bin
ENTRYPOINT ["llama-server"]
