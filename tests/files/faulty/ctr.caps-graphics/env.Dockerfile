FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
RUN apt-get update && apt-get install -y libvulkan1 vulkan-tools xvfb
COPY simulator /opt/simulator
CMD ["/opt/simulator", "--headless"]
