#!/bin/sh
docker pull nvidia/cuda:latest
