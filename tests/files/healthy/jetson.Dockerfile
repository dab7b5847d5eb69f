ARG BASE_IMAGE
FROM ${BASE_IMAGE}
ENV LD_LIBRARY_PATH=/usr/local/cuda/compat:/usr/local/cuda/lib64 CUDNN=/usr/lib/aarch64-linux-gnu
CMD ["app"]
