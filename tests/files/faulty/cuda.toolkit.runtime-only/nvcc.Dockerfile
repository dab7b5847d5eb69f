FROM nvidia/cuda:12.2.2-runtime-ubuntu22.04

RUN apt-get update && apt-get install -y --no-install-recommends \
        build-essential \
        git \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /src
COPY kernels.cu .
RUN nvcc -O3 -arch=sm_80 -o kernels kernels.cu

CMD ["./kernels"]
