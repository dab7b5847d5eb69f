#!/usr/bin/env python3
"""Simulates a farm that builds many variants: how long it takes with 1 to 256 workers, with and without a shared store.

    benches/farm.py [ROWS.json] [--variants 1000] [--order longest|exact|file] [--stores none empty filled first since] [--deviation 1.33] [--check 1.15]

ROWS.json has measured costs of rows (default: benches/farm-rows.json, which names the source of each figure). A variant is one of these
rows with one of many sets of options and, for CUDA, some architectures. Variants with the same part, options and architectures build the
same thing, which a store shares. The real cost of each part and program differs from the known one by a factor of up to `--deviation`, by
default the largest that two measurements of one command had (369 and 490 s, docs/contributing/performance.md).

A free worker starts the next variant of the order. `longest` is the order of `gpubuild ci matrix --format slurm`: by known cost, descending;
with `--changed-first`, the variants with a changed part first. `exact` leaves out the cost of parts that are in the store, which gpubuild
does not know.
With a store, a part that another worker has finished costs a download; one that another worker is building is built a second time.

The lower bound is the largest of the critical path (the longest variant, which no order shortens), the work divided by the workers, what
the worker with most variants has to do, and the time below which the variants cannot be packed on the workers (the bound L2 of Martello and
Toth for bin packing).
`--check` fails if the makespan of the order exceeds the bound by more than this factor.
"""

import argparse
import bisect
import collections
import heapq
import itertools
import json
import math
import pathlib
import random
import sys

WORKERS = [1, 2, 4, 8, 16, 32, 64, 128, 256]
STORES = {
    "none": "no store",
    "empty": "empty store",
    "filled": "store of the run before, 5 % changed",
    "first": "the same, with --changed-first",
    "since": "the same, with --changed-since",
}

Variant = collections.namedtuple("Variant", "parts program known known_program")


def variants(project: dict, count: int, deviation: float, numbers: random.Random) -> list[Variant]:
    """Different variants with `parts` (key to seconds), the seconds of the program, and the costs of both that the order knows."""
    factors = {}
    made = []
    for options in itertools.count():
        for kind in project["rows"]:
            per_arch = kind.get("part_per_arch")
            for chosen in subsets(len(per_arch["seconds"])) if per_arch else [range(0)]:
                known = {(part["part"], options): part["seconds"] for part in kind["parts"]}
                if per_arch:
                    known[per_arch["part"], options, chosen] = sum(per_arch["seconds"][index] for index in chosen)
                # The same part takes the same time in each variant.
                for key in known:
                    factors.setdefault(key, deviation ** numbers.uniform(-1, 1))
                parts = {key: seconds * factors[key] for key, seconds in known.items()}
                program = kind["program_seconds"] * deviation ** numbers.uniform(-1, 1)
                made.append(Variant(parts, program, known, kind["program_seconds"]))
                if len(made) == count:
                    return made


def subsets(count: int) -> list[range]:
    """Ranges of neighbouring architectures."""
    return [range(first, end) for first in range(count) for end in range(first + 1, count + 1)]


def longest_first(all_variants: list[Variant], without: set) -> list[Variant]:
    """By known cost, without that of some parts."""

    def known(variant: Variant) -> float:
        return sum(s for key, s in variant.known.items() if key not in without) + variant.known_program

    return sorted(all_variants, key=lambda variant: -known(variant))


def simulate(order: list[Variant], workers: int, restore: float | None, stored: set) -> float:
    """The makespan. Without a store, `restore` is None."""
    free = [0.0] * workers
    ready = dict.fromkeys(stored, 0.0)
    end = 0.0
    for variant in order:
        now = start = heapq.heappop(free)
        for key, seconds in variant.parts.items():
            if restore is not None and ready.get(key, float("inf")) <= start:
                now += min(restore, seconds)
            else:
                now += seconds
                ready[key] = min(ready.get(key, now), now)
        now += variant.program
        heapq.heappush(free, now)
        end = max(end, now)
    return end


def bounds(all_variants: list[Variant], restore: float | None, stored: set) -> tuple[float, list[float], list[float]]:
    """The critical path, the least time of each variant, and the additional times of variants that build a shared part: no order needs
    less."""
    if restore is None:
        totals = [sum(variant.parts.values()) + variant.program for variant in all_variants]
        return max(totals), totals, []
    uses = collections.Counter(key for variant in all_variants for key in variant.parts)

    def cheapest(key, seconds: float) -> float:
        return min(restore, seconds) if key in stored or uses[key] > 1 else seconds

    least = [sum(cheapest(key, s) for key, s in v.parts.items()) + v.program for v in all_variants]
    builders = {}
    for variant, total in zip(all_variants, least):
        for key, seconds in variant.parts.items():
            if key not in stored and uses[key] > 1:
                # One of the variants builds the part.
                extra = seconds - cheapest(key, seconds)
                builders[key] = min(builders.get(key, (float("inf"), 0)), (total + extra, extra))
    path = max([*least, *(total for total, _ in builders.values())])
    return path, least, [extra for _, extra in builders.values()]


def rounds(least: list[float], workers: int) -> float:
    """Of the `k * workers + 1` longest variants, one worker gets `k + 1`, at least the shortest of these."""
    longest = sorted(least, reverse=True)
    counts = range(1, (len(longest) - 1) // workers + 1)
    return max((sum(longest[k * workers - k : k * workers + 1]) for k in counts), default=0.0)


def packed(times: list[float], workers: int, least: float) -> float:
    """A time between `least` and twice that in which no order packs the times on the workers; `least` if none is found."""
    low, high = least, 2 * least
    ordered = sorted(times)
    sums = [0.0, *itertools.accumulate(ordered)]
    while high - low > least / 1000:
        middle = (low + high) / 2
        if needed_workers(ordered, sums, middle) > workers:
            low = middle
        else:
            high = middle
    return low


def needed_workers(ordered: list[float], sums: list[float], limit: float) -> int:
    """At least this many workers are needed for the times within the limit. `sums[i]` is the sum of the first `i` times.

    For each threshold: no two times above half the limit share a worker, and one above `limit - threshold` shares it with no time from the
    threshold on.
    """
    half = bisect.bisect_right(ordered, limit / 2)
    most = len(ordered) - half
    for threshold in {*ordered[:half]}:
        first, alone = bisect.bisect_left(ordered, threshold), bisect.bisect_right(ordered, limit - threshold)
        room = limit * (alone - half) - (sums[alone] - sums[half])
        most = max(most, len(ordered) - half + math.ceil((sums[half] - sums[first] - room) / limit - 1e-9))
    return most


def stored_parts(all_variants: list[Variant], name: str, numbers: random.Random) -> set:
    """The parts in the store before the first variant starts."""
    if name in ("none", "empty"):
        return set()
    keys = sorted({key for variant in all_variants for key in variant.parts}, key=str)
    return {key for key in keys if numbers.random() >= 0.05}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    here = pathlib.Path(__file__).parent
    parser.add_argument("rows", nargs="?", default=here / "farm-rows.json", type=pathlib.Path)
    parser.add_argument("--variants", type=int, default=1000)
    parser.add_argument("--order", choices=["longest", "exact", "file"], default="longest")
    parser.add_argument("--stores", nargs="+", choices=list(STORES), default=list(STORES))
    parser.add_argument("--deviation", type=float, default=490 / 369, help="largest factor between known and real cost")
    parser.add_argument("--check", type=float, help="fail if makespan / bound is larger")
    arguments = parser.parse_args()
    rows = json.loads(arguments.rows.read_text())
    worst = 0.0
    print("| project | store | workers | makespan | critical path | work / workers | bound | makespan / bound |")
    print("|---|---|---|---|---|---|---|---|")
    for project, store in itertools.product(rows["projects"], arguments.stores):
        numbers = random.Random(1)
        made = variants(project, arguments.variants, arguments.deviation, numbers)
        restore = None if store == "none" else rows["restore_seconds"]
        stored = stored_parts(made, store, numbers)
        if store == "since":
            # Rows without a changed input are not built.
            made = [variant for variant in made if not stored.issuperset(variant.parts)]
        order = made if arguments.order == "file" else longest_first(made, stored if arguments.order == "exact" else set())
        if store == "first":
            order = sorted(order, key=lambda v: stored.issuperset(v.parts))
        path, least, extra = bounds(made, restore, stored)
        work = sum(least) + sum(extra)
        for workers in WORKERS:
            makespan = simulate(order, workers, restore, stored)
            bound = packed([*least, *extra], workers, max(path, work / workers, rounds(least, workers)))
            ratio = makespan / bound
            worst = max(worst, ratio)
            seconds = [f"{value:.0f} s" for value in (makespan, path, work / workers, bound)]
            print("|", " | ".join([project["name"], STORES[store], str(workers), *seconds, f"{ratio:.2f}"]), "|")
    print(f"\nlargest ratio: {worst:.3f}")
    if arguments.check and worst > arguments.check:
        print(f"error: larger than {arguments.check}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
