FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04
RUN apt-get update \
    && apt-get install -y nvidia-cuda-toolkit python3
CMD ["python3", "app.py"]
