FROM ubuntu:24.04
RUN cmake -B build -DGGML_CPU=OFF -DGGML_SYCL=ON && cmake --build build
RUN pytest tests --deselect tests/test_merge.py::test_on_cuda_host
CMD ["app"]
