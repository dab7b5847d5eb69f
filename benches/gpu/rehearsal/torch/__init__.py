"""Fake PyTorch for rehearsals: the functions that torch_rates.py calls, without any computation."""

import time

__version__ = "rehearsal"
bfloat16, float32 = "bfloat16", "float32"


class Tensor:
    def __matmul__(self, other):
        return self

    def copy_(self, other):
        return self


def randn(*_, device, dtype):
    return Tensor()


def empty_like(other):
    return Tensor()


class cuda:
    class Event:
        def __init__(self, enable_timing):
            self.at = 0.0

        def record(self):
            self.at = time.perf_counter()

        def elapsed_time(self, end):
            return max(end.at - self.at, 1e-6) * 1e3

    @staticmethod
    def synchronize():
        pass

    @staticmethod
    def get_device_name(index):
        return "Rehearsal GPU"
