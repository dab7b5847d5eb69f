FROM pytorch/pytorch:2.3.0-cuda12.1-cudnn8-runtime
WORKDIR /app
COPY . .
RUN pip install --no-cache-dir -r requirements.txt
RUN python - <<'PY'
import torch
assert torch.cuda.is_available(), "no GPU"
PY
CMD ["python", "serve.py"]
