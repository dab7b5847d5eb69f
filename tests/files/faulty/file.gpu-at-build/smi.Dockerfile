FROM nvidia/cuda:12.4.1-devel-ubuntu22.04 AS build
WORKDIR /src
COPY . .
RUN nvidia-smi && make -j
FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04
COPY --from=build /src/app /app
CMD ["/app"]
