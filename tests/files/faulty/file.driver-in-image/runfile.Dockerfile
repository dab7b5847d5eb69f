FROM rockylinux:9
RUN dnf install -y gcc gcc-c++ make kmod wget && dnf clean all
RUN wget -q https://developer.download.nvidia.com/compute/cuda/12.2.0/local_installers/cuda_12.2.0_535.54.03_linux.run \
    && sh cuda_12.2.0_535.54.03_linux.run --silent \
    && rm cuda_12.2.0_535.54.03_linux.run
