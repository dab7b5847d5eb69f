#!/bin/sh
docker run --rm nvidia/cuda:12.4.1-base-ubuntu22.04 nvidia-smi
