"""Tests of the GPU kit with fake programs that work, hang, crash or are missing: python3 benches/gpu/kit/test_kit.py"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parents[1]

# Replaces gpubuild, infer and gk-test. FAULT is "PROGRAM ARGUMENT=what": a call of PROGRAM with ARGUMENT fails in this way.
PROGRAM = r'''#!/usr/bin/env python3
import json, os, pathlib, sys, time
name, arguments = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
where, _, what = os.environ.get("FAULT", "").partition("=")
program, _, argument = where.partition(" ")
if program == name and argument in arguments:
    if what == "hang":
        time.sleep(3600)
    if what == "crash":
        os.abort()
    if what == "fail":
        sys.exit("the device is lost")
    if what == "nonsense":
        print('{"unexpected": 1}')
        sys.exit(0)
speeds = lambda speed: {"best_tokens_per_second": speed, "worst_tokens_per_second": speed}
def measured(fused):
    depths = arguments[arguments.index("--depth") + 1].split(",")
    decode = [{"depth": int(depth), "tokens": 4, "bytes_per_token": 1000000, "stepwise": speeds(50.0), "unattended": speeds(60.0)} for depth in depths]
    return {"fused": fused, "replay": {"mode": "graph", "launches": 7}, "prompt": {"tokens": 32, **speeds(500.0)}, "decode": decode}
if name == "gpubuild":
    if "record" in arguments:
        pathlib.Path(arguments[-1]).write_text("schema = 1\n")
    elif "--validate" in arguments:
        print(json.dumps({"validation": [{"backend": arguments[arguments.index("--backends") + 1], "ok": True}]}))
    else:
        print(json.dumps({"home": str(pathlib.Path.home())}))
elif name == "gk-test":
    if "--bench" in arguments:
        print(json.dumps({"backend": "cpu", "name": "X", "reference": "copy", "reference_bytes_per_s": 2e9, "types": {}}))
    else:
        print(json.dumps({"device": "X", "arch": "x", "driver": "1", "passed": 3, "failed": 0, "skipped": 0, "not_run": 0,
                          "cases": [{"op": "matmul", "type": "f16", "shape": "", "nmse": 1e-9, "ok": True}]}))
elif arguments[0] == "check":
    print(json.dumps({"rows": [{"ok": True}], "wrong": 0, "replay": {"mode": "graph", "launches": 7, "note": ""}}))
elif arguments[0] == "run":
    print("the same text")
elif arguments[0] == "random-model":
    pathlib.Path(arguments[1]).write_bytes(b"GGUF")
elif "--turns" in arguments:
    print(json.dumps({"ready": True, "device": {"name": "X"}}), flush=True)
    for _ in sys.stdin:
        print(json.dumps({"measured": [measured(True), measured(False)]}), flush=True)
'''
STAGES = ["machine", "correctness", "sanitizer", "profile", "speed", "validate"]


class Case(unittest.TestCase):
    """A copy of the kit with fake programs."""

    def setUp(self):
        self.work = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        # A copy, because some tests remove a fake tool.
        self.kit = self.work / "repository" / "benches" / "gpu"
        shutil.copytree(HERE, self.kit, ignore=shutil.ignore_patterns(".gpubuild", "__pycache__", "results"))
        self.programs, self.out = self.work / "programs", self.work / "out"
        self.programs.mkdir()
        for name in ("gpubuild", "infer", "gk-test"):
            (self.programs / name).write_text(PROGRAM)
            (self.programs / name).chmod(0o755)

    def enterContext(self, manager):  # built into unittest since Python 3.11
        value = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return value

    def command(self, *arguments):
        return [sys.executable, self.kit / "run", "--rehearse", "--programs", self.programs, "--out", self.out, *arguments]

    def run_kit(self, *arguments, fault=""):
        done = subprocess.run(self.command(*arguments), env={**os.environ, "FAULT": fault}, capture_output=True, text=True)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        result = json.loads((self.out / "result.json").read_text())
        states = {stage["name"]: stage["state"] for stage in result["stages"]}
        self.assertEqual(list(states), STAGES, done.stdout)
        self.assertEqual(done.returncode, int(set(states.values()) != {"ok"}), done.stdout)
        return result, states, done.stdout

    def only(self, states, stage, state):
        """Checks that all stages except one are ok."""
        self.assertEqual(states, {name: state if name == stage else "ok" for name in STAGES})


class Run(Case):
    def test_all_stages_succeed_and_the_result_hides_the_machine(self):
        result, states, stdout = self.run_kit()
        self.assertEqual(set(states.values()), {"ok"}, stdout)
        self.assertTrue(result["rehearsal"])
        models = result["stages"][4]["result"]["models"]
        self.assertEqual([(len(model["infer"]), len(model["llama-bench"])) for model in models], [(3, 3)] * 4)
        self.assertEqual(len(result["stages"][3]["result"]["kernels"]), 6)
        for name in ("result.json", "result.md", "run.log"):
            text = (self.out / name).read_text()
            self.assertNotIn(str(self.work), text)
            self.assertNotIn(str(pathlib.Path.home()), text)

    def test_hanging_program_stops_only_its_stage(self):
        result, states, _ = self.run_kit("--share", "machine=3", "--share", "correctness=3", fault="gk-test small=hang")
        self.only(states, "correctness", "stopped")
        self.assertTrue(result["stages"][1]["result"]["text"]["equal"])

    def test_hang_between_rounds_keeps_measurements(self):
        result, states, _ = self.run_kit(*(f"--share={name}=6" for name in STAGES[:5]), fault="infer --turns=hang")
        self.only(states, "speed", "stopped")
        self.assertEqual(len(result["stages"][4]["result"]["models"]), 1)

    def test_crash_and_error_are_reported(self):
        for what, text in (("crash", "signal 6"), ("fail", "the device is lost")):
            result, states, stdout = self.run_kit(fault=f"infer check={what}")
            self.only(states, "correctness", "problems")
            self.assertIn(text, result["stages"][1]["problems"][0])
            self.assertIn("problem: infer check", stdout)
            self.assertEqual(result["stages"][1]["result"]["ops"]["passed"], 3)

    def test_unexpected_output_fails_only_its_stage(self):
        result, states, _ = self.run_kit(fault="infer check=nonsense")
        self.only(states, "correctness", "failed")
        self.assertIn("KeyError", result["stages"][1]["problems"][0])

    def test_missing_tool_is_reported(self):
        (self.kit / "rehearsal" / "ncu").unlink()
        result, states, _ = self.run_kit()
        self.only(states, "profile", "failed")
        self.assertIn("`ncu` cannot be started", result["stages"][3]["problems"][0])
        self.assertEqual(result["stages"][3]["steps"][0]["state"], "missing")

    def test_unsupported_counter_is_skipped(self):
        ncu = self.kit / "rehearsal" / "ncu"
        refuse = 'if "dram__bytes.sum" in options["--metrics"]:\n    sys.exit("==ERROR== Failed to find metric dram__bytes.sum")\n'
        ncu.write_text(ncu.read_text().replace('print("==PROF== Connected', refuse + 'print("==PROF== Connected'))
        result, states, _ = self.run_kit()
        self.only(states, "profile", "problems")
        self.assertEqual(result["stages"][3]["problems"], ["ncu: this GPU has no dram__bytes.sum"])
        for kernel in result["stages"][3]["result"]["kernels"]:
            self.assertIn("registers", kernel)
            self.assertNotIn("dram_bytes", kernel)

    def test_home_folder_is_replaced(self):
        result, _, _ = self.run_kit("--stages", ",".join(STAGES))
        self.assertEqual(result["stages"][0]["result"]["detect"], {"home": "~"})

    def test_model_unsupported_by_llama_bench_is_measured_with_infer(self):
        (self.kit / "rehearsal" / "llama-bench").write_text("#!/bin/sh\necho no such model >&2; exit 3\n")
        result, states, _ = self.run_kit()
        self.only(states, "speed", "problems")
        models = result["stages"][4]["result"]["models"]
        self.assertEqual([(len(model["infer"]), len(model["llama-bench"])) for model in models], [(3, 0)] * 4)
        self.assertIn("exit code 3: no such model", models[0]["problems"][0])

    def test_terminated_run_keeps_measurements(self):
        run = subprocess.Popen(self.command(), env={**os.environ, "FAULT": "infer --turns=hang"}, stdout=subprocess.PIPE, text=True)
        for line in run.stdout:
            if line.startswith("  tiny"):
                break
        run.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(60), 143)
        run.stdout.close()
        result = json.loads((self.out / "result.json").read_text())
        self.assertEqual([stage["name"] for stage in result["stages"]], STAGES[:5])
        self.assertEqual(result["stages"][4]["state"], "not ended")

    def test_missing_kit_error_says_what_to_do(self):
        done = subprocess.run([sys.executable, self.kit / "run", "--kit", self.work], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("benches/gpu/prepare", done.stderr)


class Report(Case):
    def report(self, *arguments):
        return subprocess.run([sys.executable, self.kit / "report", *arguments], capture_output=True, text=True)

    def page(self, text="<!-- benches/gpu/report writes from here -->\n<!-- to here -->\n"):
        page = self.work / "repository" / "docs" / "contributing" / "performance.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f"before\n{text}after\n")
        return page

    def test_results_become_tables(self):
        result, _, _ = self.run_kit()
        file = self.kit / "results" / "card.json"
        file.parent.mkdir(exist_ok=True)
        page = self.page()
        self.assertEqual(self.report("--check").returncode, 1)
        self.assertEqual(self.report().returncode, 0)
        self.assertIn("Not measured", page.read_text())
        file.write_text(json.dumps(result))
        refused = self.report()
        self.assertEqual(refused.returncode, 1)
        self.assertIn("rehearsal", refused.stderr)
        file.write_text(json.dumps({**result, "rehearsal": False}))
        self.assertEqual(self.report().returncode, 0)
        text = page.read_text()
        self.assertTrue(text.startswith("before\n") and text.endswith("after\n"))
        self.assertNotIn("Not measured", text)
        # 60 tokens/s of 1 MB each are 0.06 GB/s; the share refers to the fastest fake copy rate.
        self.assertRegex(text, r"\| tiny \| q4_0 \| decode at 64 \| 60\.0 \| \d+ % \| 100\.0 \| \d+ % \| 0\.60 \| 60\.0 \| 1\.00 \|")
        self.assertEqual(self.report("--check").returncode, 0)

    def test_invalid_results_are_rejected(self):
        file = self.work / "other.json"
        for content, why in (("[]", "schema"), ("{", "cannot be read"), ('{"schema": {"name": "gpu-run", "version": 9}}', "version 1")):
            file.write_text(content)
            done = self.report(file)
            self.assertEqual(done.returncode, 1)
            self.assertIn(why, done.stderr)

    def test_roofline_reads_as_many_bytes_as_the_program(self):
        sys.path[:0] = [str(HERE.parent), str(HERE)]
        import roofline

        for file in sorted((HERE / "results").glob("*.json")):
            result = json.loads(file.read_text())
            for model in roofline.page.stage(result, "speed")["models"]:
                for depth, counted in model["infer"][0]["bytes_per_token"].items():
                    expected = roofline.bytes_of_token(roofline.SHAPES[model["shape"]], model["type"], int(depth))
                    self.assertAlmostEqual(expected / counted, 1, delta=0.005, msg=f"{model['shape']} {model['type']} at {depth}")
            script = [sys.executable, HERE.parent / "roofline.py", file]
            predicted = subprocess.run([*script, "--device", roofline.published(roofline.page.gpu(result))], capture_output=True, text=True, check=True).stdout
            measured = subprocess.run([*script, "--measured"], capture_output=True, text=True, check=True).stdout
            # The prediction for the measured card is what was measured.
            for one, other in zip(predicted.splitlines()[2:], measured.splitlines()[2:]):
                self.assertTrue(other.startswith(one[:-1]), f"{one} differs from {other}")

    def test_page_without_markers_is_not_changed(self):
        page = self.page("")
        self.assertEqual(self.report().returncode, 1)
        self.assertEqual(page.read_text(), "before\nafter\n")


if __name__ == "__main__":
    unittest.main()
