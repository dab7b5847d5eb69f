"""Paths shared by the scripts `prepare`, `run` and `report`."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[3]
KIT = ROOT / "target" / "gpu-kit"
RESULTS = ROOT / "benches" / "gpu" / "results"
