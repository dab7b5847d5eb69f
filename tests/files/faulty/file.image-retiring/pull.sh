#!/bin/sh
apptainer pull cuda.sif docker://nvidia/cuda:11.3.1-base-ubuntu20.04
