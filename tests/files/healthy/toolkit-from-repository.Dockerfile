FROM debian:12 AS build
RUN apt-get update && apt-get install -y wget ca-certificates g++ cmake \
 && wget -q https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/cuda-keyring_1.1-1_all.deb \
 && dpkg -i cuda-keyring_1.1-1_all.deb && apt-get update \
 && apt-get install -y cuda-nvcc-12-6 cuda-cudart-dev-12-6
ENV PATH=/usr/local/cuda-12.6/bin:$PATH
COPY . /src
RUN cmake -S /src -B /b -DCMAKE_CUDA_ARCHITECTURES="75;80;90" && cmake --build /b
FROM debian:12-slim
COPY --from=build /b/app /usr/local/bin/app
CMD ["app"]
