FROM ubuntu:22.04 AS build
RUN apt-get update && apt-get install -y nvidia-cuda-toolkit cmake g++
COPY . /src
RUN cmake -S /src -B /b -DCMAKE_CUDA_ARCHITECTURES=89 && cmake --build /b
FROM ubuntu:22.04
COPY --from=build /b/app /app
CMD ["/app"]
