"""Tables of results, as Markdown."""

from .speed import best

NOT_MEASURED = "Not measured: no machine with an NVIDIA GPU has run the kit yet.\n"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def number(value, digits=1):
    return "" if value is None else f"{value:.{digits}f}"


def percent(value):
    return "" if value is None else f"{value * 100:.0f} %"


def ratio(one, other):
    return "" if not one or not other else f"{one / other:.2f}"


def stage(result, name):
    """The result of a stage; empty if it did not run."""
    return next((stage.get("result") or {} for stage in result["stages"] if stage["name"] == name), {})


def copy_rate(result):
    """Gigabytes per second of a copy on the device, read and written: the faster of PyTorch's and ours."""
    found = stage(result, "machine")
    rates = (our_copy(found), (found.get("torch") or {}).get("copy_gigabytes_per_second"))
    return max(filter(None, rates), default=None)


def our_copy(found):
    """Gigabytes per second of the copy that `gk-test --bench` made; None if it measured CPU memory."""
    kernels = found.get("kernels") or {}
    return kernels["reference_bytes_per_s"] / 1e9 if kernels.get("reference", "").startswith("copy") else None


def gpu(result):
    """The name of the GPU."""
    found = stage(result, "machine")
    cards = found.get("nvidia_smi") or [{}]
    return cards[0].get("name") or (found.get("kernels") or {}).get("name") or "unknown GPU"


def machine_lines(result):
    found, kit = stage(result, "machine"), result.get("kit", {})
    card = (found.get("nvidia_smi") or [{}])[0]
    torch = found.get("torch") or {}
    rows = [
        ["GPU", gpu(result)],
        ["driver", card.get("driver_version", "")],
        ["date", result["date"]],
        ["gpubuild", kit.get("commit", "")],
        ["llama.cpp", kit.get("llama.cpp", "")],
        ["copy on the device, read + write, our kernel", f"{number(our_copy(found), 0)} GB/s"],
        ["the same, PyTorch", f"{number(torch.get('copy_gigabytes_per_second'), 0)} GB/s"],
        ["bf16 product of 8192 x 8192, PyTorch", f"{number(torch.get('bf16_tflops'), 0)} TFLOP/s"],
    ]
    return table(["", ""], rows)


def correctness_lines(result):
    found = stage(result, "correctness")
    ops, check, text = found.get("ops"), found.get("check"), found.get("text")
    rows = []
    if ops:
        rows.append(["every op against the float64 reference", f"{ops['passed']} passed, {ops['failed']} failed, {ops['skipped']} skipped"])
    if check:
        rows.append(["`infer check`", f"{check['comparisons']} comparisons, {len(check['wrong'])} wrong"])
        replay = check["replay"]
        note = f": {replay['note']}" if replay.get("note") else ""
        rows.append(["decode plan", f"{replay['launches']} launches, replayed as {replay['mode']}{note}"])
    if text:
        rows.append([f"{text['tokens']} tokens of greedy text", "equal to the cpu backend's" if text["equal"] else "DIFFERENT from the cpu backend's"])
    for name, tool in stage(result, "sanitizer").items():
        if "errors" in tool:
            rows.append([f"compute-sanitizer, {name}", f"{tool['errors']} errors in {tool.get('passed', 0)} cases"])
        else:
            rows.append([f"compute-sanitizer, {name}", f"no result: {tool['state']}"])
    for backend, programs in stage(result, "validate").items():
        for program in programs or []:
            failed = f"does not work: {program.get('message', 'no message')}"
            rows.append([f"validation program, {backend}", "works" if program.get("ok") else failed])
    return table(["check", "result"], rows) if rows else ""


def speed_lines(result):
    found = stage(result, "speed")
    models = [model for model in found.get("models", []) if model.get("infer") or model.get("llama-bench")]
    if not models:
        return ""
    copy, workload = copy_rate(result), found["workload"]
    head = ["shape", "type", "what", "infer", "of the copy rate", "llama-bench", "of the copy rate", "ratio", "`--no-fuse`", "fused / `--no-fuse`"]
    rows = []
    for model in models:
        ours, their = model.get("infer", []), model.get("llama-bench", [])
        one, other = best(ours, "fused", "prompt"), best(their, "prompt")
        apart = best(ours, "unfused", "prompt")
        name = [model["shape"], model["type"]]
        rows.append([*name, f"prompt of {workload['prompt']}", number(one), "", number(other), "", ratio(one, other), number(apart), ratio(one, apart)])
        for depth in map(str, workload["depths"]):
            one, other = best(ours, "fused", "decode", depth), best(their, "decode", depth)
            apart, read = best(ours, "unfused", "decode", depth), best(ours, "bytes_per_token", depth)
            share = lambda rate: percent(rate * read / 1e9 / copy) if rate and read and copy else ""
            rows.append([*name, f"decode at {depth}", number(one), share(one), number(other), share(other), ratio(one, other), number(apart),
                         ratio(one, apart)])
    programs = [name for name in ("infer", "llama-bench") if any(model.get(name) for model in models)]
    least = min(len(model.get(name, [])) for model in models for name in programs)
    alternating = " alternating" if len(programs) == 2 else ""
    return f"Tokens per second, best of at least {least}{alternating} rounds.\n\n" + table(head, rows)


def profile_lines(result):
    kernels = stage(result, "profile").get("kernels")
    if not kernels:
        return ""
    head = ["kernel", "in", "of the time of its kernels", "time", "DRAM throughput", "L1 wavefronts", "issue slots used", "occupancy", "registers"]
    share = lambda kernel, name: "" if kernel.get(name) is None else f"{kernel[name]:.0f} %"
    rows = []
    for kernel in kernels:
        time, wavefronts = kernel.get("nanoseconds"), kernel.get("l1_wavefronts")
        rows.append([f"`{kernel['name']}`", kernel["part"], percent(kernel.get("time_share")), "" if time is None else f"{time / 1e3:.1f} us",
                     share(kernel, "dram_percent"), number(wavefronts, 0), share(kernel, "issue_percent"), share(kernel, "occupancy_percent"),
                     number(kernel.get("registers"), 0)])
    return table(head, rows)


def problem_lines(result):
    lines = [f"- {stage['name']} ({stage['state']}): {problem}" for stage in result["stages"] for problem in stage.get("problems", [])]
    return "\n".join(lines) + "\n" if lines else ""


def sections(result, level="##", problems=True):
    """All sections of a result."""
    parts = [("Machine", machine_lines(result)), ("Correctness", correctness_lines(result)), ("Speed", speed_lines(result)),
             ("Kernels in ncu", profile_lines(result)), ("Problems", problem_lines(result) if problems else "")]
    return "\n".join(f"{level} {title}\n\n{text}" for title, text in parts if text)


def page(result):
    """The page that `run` writes."""
    stages = table(["stage", "state", "seconds"], [[stage["name"], stage["state"], number(stage.get("seconds"))] for stage in result["stages"]])
    title = "rehearsal, not a measurement" if result["rehearsal"] else gpu(result)
    return f"# GPU run: {title}\n\n{stages}\n{sections(result)}"
