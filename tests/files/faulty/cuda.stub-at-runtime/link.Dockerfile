FROM nvidia/cuda:12.4.1-devel-ubuntu22.04 AS build
COPY . /src
RUN make -C /src

FROM build
RUN ln -s /usr/local/cuda/lib64/stubs/libcuda.so /usr/lib/x86_64-linux-gnu/libcuda.so.1 && ldconfig
RUN /src/app --help
CMD ["/src/app"]
