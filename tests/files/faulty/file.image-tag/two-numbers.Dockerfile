FROM nvidia/cuda:12.2-devel-ubuntu22.04 as builder
RUN apt update && apt install -y git make gcc
RUN git clone https://example.org/gpu-burn.git && cd gpu-burn && make COMPUTE=80

FROM nvidia/cuda:12.2.2-runtime-ubuntu22.04
COPY --from=builder /gpu-burn/gpu_burn /usr/local/bin/
CMD ["gpu_burn", "60"]
