FROM nvidia/cuda:12.8.1-cudnn-devel-ubuntu24.04@sha256:1e8ac7a54c184a1af8ef2167f28fa98281892a835c981ebcddb1fad04bdd452d AS wheels
ENV TORCH_CUDA_ARCH_LIST="7.5 8.0 8.6 9.0 10.0 12.0+PTX" \
    MAX_JOBS=4 \
    LIBRARY_PATH=/usr/local/cuda/lib64/stubs
RUN apt-get update && apt-get install -y --no-install-recommends python3-pip python3-dev ninja-build
# A check that must not fail where there is no GPU.
RUN nvidia-smi || echo "no GPU while building, as expected"
RUN command -v rocminfo && rocminfo; true
RUN pip install --break-system-packages torch && pip wheel --no-build-isolation -w /wheels .

FROM nvidia/cuda:12.8.1-cudnn-runtime-ubuntu24.04
RUN --mount=from=wheels,source=/wheels,target=/wheels \
    apt-get update && apt-get install -y python3-pip && pip install --break-system-packages /wheels/*.whl
HEALTHCHECK CMD nvidia-smi -L
CMD ["python3", "-m", "app"]
