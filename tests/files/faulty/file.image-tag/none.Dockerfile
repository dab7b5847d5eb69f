# escape=`
FROM --platform=linux/amd64 nvidia/cuda AS base
RUN apt-get update && `
    apt-get install -y curl
FROM base
CMD curl --version
