FROM nvidia/cuda:12.1.1-runtime-ubuntu22.04
ENV DEBIAN_FRONTEND=noninteractive \
    CMAKE_ARGS="-DGGML_CUDA=on -DGGML_NATIVE=off -DCMAKE_CUDA_ARCHITECTURES=75;86" \
    FORCE_CMAKE=1
RUN apt-get update && apt-get install -y python3-pip
RUN pip install --no-cache-dir llama-cpp-python==0.3.9
CMD ["python3", "-m", "llama_cpp.server"]
