"""Prints what PyTorch achieves on this GPU as JSON: a copy (bytes read and written) and a bf16 matrix product."""

import json
import sys

import torch

SIZE, COPY_BYTES, ROUNDS = (256, 1 << 20, 3) if "--tiny" in sys.argv else (8192, 4 << 30, 20)


def seconds(work):
    """The median of `ROUNDS` timed runs, after three warm-up runs."""
    times = []
    for round in range(ROUNDS + 3):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        if round >= 3:
            times.append(start.elapsed_time(end) / 1e3)
    return sorted(times)[len(times) // 2]


def main():
    left = torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16)
    right = torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16)
    product = seconds(lambda: left @ right)
    source = torch.randn(COPY_BYTES // 4, device="cuda", dtype=torch.float32)
    target = torch.empty_like(source)
    copy = seconds(lambda: target.copy_(source))
    print(json.dumps({
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(0),
        "bf16_tflops": 2 * SIZE**3 / product / 1e12,
        "copy_gigabytes_per_second": 2 * COPY_BYTES / copy / 1e9,
    }))


main()
