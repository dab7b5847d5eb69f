FROM nvidia/cuda:12.4.1-devel-ubuntu22.04 AS build
RUN apt-get update && apt-get install -y build-essential cmake git
RUN git clone --depth 1 https://github.com/ggml-org/llama.cpp /llama
WORKDIR /llama
RUN cmake -B build -DGGML_CUDA=ON && cmake --build build --config Release -j
FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04
COPY --from=build /llama/build/bin/ /usr/local/bin/
CMD ["llama-server", "--host", "0.0.0.0"]
