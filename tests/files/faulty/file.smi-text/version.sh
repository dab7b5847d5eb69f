#!/bin/sh
set -e
if [ -n "$(nvidia-smi | grep -o "CUDA Version: [0-9]*\.[0-9]*")" ]; then
    echo "found a driver"
fi
