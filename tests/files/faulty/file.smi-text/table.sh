#!/usr/bin/env bash
used=$(nvidia-smi | grep MiB | awk '{print $9}')
echo "$used"
