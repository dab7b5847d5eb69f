FROM ubuntu:24.04
COPY . .
RUN make base.en CMAKE_ARGS="-DGGML_VULKAN=1"
ENTRYPOINT ["bash", "-c"]
