FROM ubuntu:24.04 AS build
RUN apt-get update && apt-get install -y build-essential cmake libvulkan-dev glslc
COPY . /app
RUN cmake -S /app -B /app/build -DGGML_NATIVE=OFF -DGGML_VULKAN=1 && cmake --build /app/build
FROM ubuntu:24.04
RUN apt-get update && apt-get install -y libvulkan1 mesa-vulkan-drivers
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility,graphics
COPY --from=build /app/build/bin /app
ENTRYPOINT ["/app/llama-server"]
