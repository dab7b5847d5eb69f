ARG BASE=nvidia/cuda:10.2-cudnn7-devel-ubuntu18.04
FROM ${BASE}
RUN apt-get update \
 && apt-get install -y python3-pip
RUN pip3 install torch==1.5.0 torchvision==0.6.0
WORKDIR /workspace
