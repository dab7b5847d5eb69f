#!/bin/sh
# Drivers from 610 on print `CUDA UMD Version`.
nvidia-smi | sed -n -e 's/.*CUDA UMD Version: *\([0-9.]*\).*/\1/p' -e 's/.*CUDA Version: *\([0-9.]*\).*/\1/p' | head -1
nvidia-smi --query-gpu=memory.total --format=csv | grep -Eo '[0-9]+'
if command -v docker; then
    docker run --rm --gpus all nvidia/cuda:12.4.1-base-ubuntu22.04 nvidia-smi
fi
