FROM nvidia/cuda:12.4.1-cudnn8-runtime-ubuntu22.04
RUN apt-get update && apt-get install -y python3-pip && pip install faster-whisper
ENTRYPOINT ["python3", "/app/serve.py"]
