"""Tests of resources.py: python3 benches/gpu/kit/test_resources.py"""

import contextlib
import io
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import resources  # noqa: E402

REPORT = """\
[cpu-cuda 22/26] Compiling CUDA kernels for 80-real 90-real
[cpu-cuda] ptxas info    : 0 bytes gmem
[cpu-cuda] ptxas info    : Compiling entry function 'product' for 'sm_80'
[cpu-cuda] ptxas info    : Function properties for product
[cpu-cuda]     16 bytes stack frame, 24 bytes spill stores, 28 bytes spill loads
[cpu-cuda] ptxas info    : Used 80 registers, used 1 barriers, 18592 bytes smem, 360 bytes cmem[0]
[cpu-cuda] ptxas info    : Compiling entry function 'product' for 'sm_90a'
[cpu-cuda] ptxas info    : Function properties for product
[cpu-cuda]     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
[cpu-cuda] ptxas info    : Used 255 registers, used 0 barriers
"""


class Resources(unittest.TestCase):
    def test_report_is_parsed(self):
        rows = resources.parse(REPORT)
        self.assertEqual(rows, {"product": {80: (80, 16, 52, 18592), 90: (255, 0, 0, 0)}})
        table = resources.render(rows, "13.5.37", {"product": 256}).splitlines()
        self.assertEqual(table[-2:], ["kernel threads shared sm_80 sm_90", "product 256 0|18592 80/24s16x52 255/8"])

    def test_warps_are_limited_by_what_runs_out_first(self):
        # 65,536 registers, 32 blocks and 228 KiB per multiprocessor of sm_90.
        self.assertEqual(resources.resident_warps(90, 32, 0, 256), 64)
        self.assertEqual(resources.resident_warps(90, 33, 0, 256), 48)
        self.assertEqual(resources.resident_warps(90, 16, 0, 32), 32)
        self.assertEqual(resources.resident_warps(90, 32, 100 * 1024, 256), 16)

    def test_difference_is_an_error_that_names_the_kernel(self):
        before = resources.render(resources.parse(REPORT), "13.5.37", {"product": 256})
        after = before.replace("x52", "x90")
        output = io.StringIO()
        with contextlib.redirect_stdout(output), self.assertRaisesRegex(SystemExit, "not as in resources.txt"):
            resources.compare(before, after)
        self.assertIn("product\n  table: 256 0|18592 80/24s16x52 255/8\n  now:   256 0|18592 80/24s16x90 255/8", output.getvalue())
        with self.assertRaisesRegex(SystemExit, "another compiler"):
            resources.compare(before, before.replace("13.5.37", "13.6.1"))

    def test_a_few_registers_are_no_difference(self):
        before = resources.render(resources.parse(REPORT), "13.5.37", {"product": 256})
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            resources.compare(before, before.replace(" 80/24s16x52", " 76/24s24x60"))
        self.assertIn("as written", output.getvalue())
        for other in (" 70/24s16x52", " 80/16s16x52", " 80/24s16x80", " 80/24s40x52", " 80/24"):
            with contextlib.redirect_stdout(output), self.assertRaisesRegex(SystemExit, "not as in"):
                resources.compare(before, before.replace(" 80/24s16x52", other))
        with self.assertRaisesRegex(SystemExit, "other architectures"):
            resources.compare(before, before.replace("sm_80 sm_90\n", "sm_80\n"))

    def test_every_kernel_of_the_table_has_a_block_size(self):
        names = {line.split()[0] for line in resources.TABLE.read_text().splitlines()[4:]}
        self.assertEqual(names, set(resources.block_sizes()))


if __name__ == "__main__":
    unittest.main()
