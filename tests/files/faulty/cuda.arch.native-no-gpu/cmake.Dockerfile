FROM nvidia/cuda:12.6.3-devel-ubuntu24.04 AS build
RUN apt-get update && apt-get install -y cmake g++
COPY . /src
RUN cmake -S /src -B /build -DCMAKE_CUDA_ARCHITECTURES=native && cmake --build /build
FROM nvidia/cuda:12.6.3-runtime-ubuntu24.04
COPY --from=build /build/app /app
CMD ["/app"]
