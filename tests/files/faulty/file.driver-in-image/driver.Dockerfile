FROM nvidia/cuda:12.2.2-base-ubuntu22.04
# nvidia-smi was missing when the image was tried without --gpus
RUN apt-get update && apt-get install -y nvidia-driver-535 nvidia-utils-535
CMD ["nvidia-smi"]
