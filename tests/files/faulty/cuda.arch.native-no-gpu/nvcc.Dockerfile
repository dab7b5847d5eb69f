FROM nvidia/cuda:12.6.3-devel-ubuntu24.04 AS build
COPY saxpy.cu .
RUN nvcc -arch=native -O2 saxpy.cu -o /saxpy
FROM nvidia/cuda:12.6.3-base-ubuntu24.04
COPY --from=build /saxpy /saxpy
CMD ["/saxpy"]
