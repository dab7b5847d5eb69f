FROM ubuntu:22.04 AS build
RUN apt-get update && apt-get install -y nvidia-cuda-toolkit g++
COPY . /src
RUN make -C /src
FROM ubuntu:22.04
COPY --from=build /src/app /app
CMD ["/app"]
