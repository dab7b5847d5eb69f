FROM nvidia/cuda:12.4.1-base-ubuntu22.04
RUN apt-get update && apt-get install -y --no-install-recommends libvulkan1 libegl1
COPY renderer /opt/renderer
ENTRYPOINT ["/opt/renderer"]
