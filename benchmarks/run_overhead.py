"""What `gpudoctor run` costs a training: step times of processes with and without it, and of others beside it.

    python benchmarks/run_overhead.py [--teams 6] [--rounds 25] [--jobs JOB;JOB] [--start-pairs 25]
        [--before CHECKOUT] [--inside] [--rival-python PYTHON] [--rival-jobs JOB;JOB]
        [--machine WORDS] [--date DATE] [--output FILE]
    python benchmarks/run_overhead.py --show FILE

A team is one process a tool and two bare ones, all of the same job. They take turns: each trains for a block
of steps (about a quarter of a second) while the others wait, in an order drawn anew for every round. A machine
that is faster in one minute than in the next is so for all of them. A team's figure is the median over its
rounds of the difference between a tool's block and the bare one's; `A/A` is that of the second bare process.
Processes of the same program differ by where their memory happens to lie, so there are several teams: a figure
is their median, with an interval of 95 % from the order of the teams (of six, from the lowest to the highest).
All that a tool does is in it, its readings and its writing too; the first seconds are not. The job also times
the parts of its steps, which tells where a tool's cost lies: what memory's place does is in all of them.

`--inside` adds a process that records itself (`gpudoctor.record()`).

`--before` names a checkout of an earlier version: it is one more process of every team, and the difference of
this version to it is told besides. That is the figure that says whether a change has a cost.

TraceML (with its marker), train-doctor and torch.profiler need an environment with torch, `traceml-ai` and
`train-doctor` (`--rival-python`) and have bare processes of their own there; without one they are left out, and
that is said.
"""

import argparse
import compileall
import json
import os
import random
import select
import statistics
import subprocess
import sys
import tempfile
from math import comb
from pathlib import Path

from overhead_jobs import JOBS, PARTS

HERE = Path(__file__).resolve().parent
PROBE = HERE.parent / "gpudoctor" / "probe"
PATIENCE = 120
"""Seconds for a process to start, or to train for a block."""
BARE, AGAIN, BEFORE = "bare", "A/A", "before"
CHANGE = "gpudoctor, more than before"


class Trainee:
    """One process that trains when it is its turn."""

    def __init__(self, folder, words, job, after):
        script = str(HERE / "overhead_jobs.py")
        for name in ("go", "done"):
            os.mkfifo(folder / name)
        command = [script if word == "JOB" else word for word in words]
        self.said = folder / "said"
        with self.said.open("w") as said:
            self.process = subprocess.Popen(
                [*command, job, str(folder), *after],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )
        # for reading and writing: so it opens at once, whether the other side is there yet or not
        self.done = os.fdopen(os.open(folder / "done", os.O_RDWR), "r")
        self.go = os.fdopen(os.open(folder / "go", os.O_RDWR), "w", buffering=1)

    def turn(self, order="block"):
        """What it answers to an order; raises RuntimeError where it is gone or silent."""
        self.go.write(order + "\n")
        for _ in range(PATIENCE):
            if select.select([self.done], [], [], 1.0)[0]:
                return self.done.readline()
            if self.process.poll() is not None:
                break
        raise RuntimeError(self.said.read_text()[-600:])

    def end(self):
        """Wait for it, which was told to end."""
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.go.close()
        self.done.close()


def race(tools, job, rounds):
    """One team: `[wall, cpu, *parts]` seconds of a step of every block, a list a tool."""
    with tempfile.TemporaryDirectory() as place:
        team = {}
        try:
            for number, (name, (words, after)) in enumerate(tools.items()):
                folder = Path(place) / str(number)
                folder.mkdir()
                team[name] = Trainee(folder, words, job, after)
            for trainee in team.values():
                trainee.turn("warm")
            blocks = {name: [] for name in team}
            for _ in range(rounds):
                for name in random.sample(list(team), len(team)):
                    blocks[name].append(json.loads(team[name].turn()))
            return blocks
        finally:
            for trainee in team.values():
                trainee.process.terminate()
            for trainee in team.values():
                trainee.end()


def interval(values):
    """Median and an interval of 95 % for it, from the order of the values; of a few, lowest to highest."""
    ordered = sorted(values)
    n = len(ordered)
    out = chance = 0
    while chance + comb(n, out) <= 0.025 * 2**n:
        chance += comb(n, out)
        out += 1
    cut = max(0, out - 1)
    return statistics.median(ordered), ordered[cut], ordered[n - 1 - cut]


def compared(teams, name, base=BARE):
    """Seconds of a bare step, and a tool's differences to another, wall and CPU and by part, with intervals."""
    found = {"step": statistics.median(block[0] for blocks in teams for block in blocks[BARE])}
    for at, what in enumerate(("wall", "cpu", *PARTS)):
        each = [
            statistics.median(b[at] - a[at] for a, b in zip(blocks[base], blocks[name], strict=True))
            for blocks in teams
        ]
        found |= {what: interval(each), f"{what}_of_teams": each}
    return found | {"rounds": len(teams[0][BARE])}


def line(job, label, figures):
    """One line of the table."""
    (wall, low, high), (cpu, _, _) = figures["wall"], figures["cpu"]
    step = figures["step"]
    return (
        f"{job:20} {label:22} {step * 1e3:7.2f} ms {wall * 1e6:+8.1f} us"
        f" [{low * 1e6:+8.1f}, {high * 1e6:+8.1f}] {wall / step:+7.2%}  CPU {cpu * 1e6:+8.1f} us"
    )


def shown(told):
    """The tables of docs/recording.md: every job, bare, recorded and bare again, by part; every tool beside."""
    head = "| {} | step | more a step | share | A/A |\n|---|---:|---:|---:|---:|"
    rows = [head.format("job")]
    others = ["| job | tool | more a step | share |\n|---|---|---:|---:|"]
    parts = [f"| job | | {' | '.join(PARTS)} |\n|---|---|{'---:|' * len(PARTS)}"]
    for job, tools in told["jobs"].items():
        for name, figures in tools.items():
            more = microseconds(figures["wall"])
            share = f"{figures['wall'][0] / figures['step']:+.1%}"
            if name == "gpudoctor" and AGAIN in tools:
                again = microseconds(tools[AGAIN]["wall"])
                rows.append(f"| {job} | {figures['step'] * 1e3:.2f} ms | {more} | {share} | {again} |")
            if name in (AGAIN, "gpudoctor", CHANGE) and PARTS[0] in figures:
                cells = " | ".join(microseconds(figures[part], 1) for part in PARTS)
                parts.append(f"| {job} | {name} | {cells} |")
            if name not in (AGAIN, BEFORE, CHANGE) and tools.keys() - {AGAIN, "gpudoctor", BEFORE, CHANGE}:
                others.append(f"| {job} | {name} | {more} | {share} |")
    return "\n".join([*rows, "", *parts, "", *others])


def microseconds(value, digits=0):
    """A difference with its interval."""
    middle, low, high = (f"{seconds * 1e6:+,.{digits}f}" for seconds in value)
    return f"{middle} µs ({low} to {high})"


def ours(before, inside=False):
    """The tools of this environment: how each is started, and what its job is told besides."""
    run = [sys.executable, "-m", "gpudoctor", "run", "--quiet", "--recording", "recording", "--"]
    bare = ([sys.executable, "JOB"], [])
    tools = {BARE: bare, AGAIN: bare, "gpudoctor": ([*run, sys.executable, "JOB"], [])}
    if inside:
        tools["gpudoctor.record()"] = ([sys.executable, str(HERE / "recorded_inside.py"), "JOB"], [])
    if before:
        compileall.compile_dir(before / "gpudoctor", quiet=2, workers=1)
        places = os.pathsep.join(map(str, (before.resolve() / part for part in ("", "checks", "rules"))))
        tools[BEFORE] = (["env", f"PYTHONPATH={places}", *run, sys.executable, "JOB"], [])
    return tools


def rivals(python):
    """The others, in theirs."""
    scripts = Path(python).parent
    profile = [str(scripts / "train-doctor"), "profile", "--steps", "100000000", "--timeout", "900", "--"]
    return {
        BARE: ([python, "JOB"], []),
        "TraceML 0.5.0, marker": ([str(scripts / "traceml"), "run", "JOB", "--args"], ["--marker"]),
        "train-doctor 0.2.0": ([*profile, python, "JOB"], []),
        "torch.profiler": ([python, "JOB"], ["--profiler"]),
    }


def start_up(pairs):
    """Seconds that `import torch` takes in a new process, bare and under the probe, in pairs.

    The probe's files are compiled first, as pip leaves them: a checkout may be without.
    """
    compileall.compile_dir(PROBE, quiet=2, workers=1)
    code = "import time; t = time.perf_counter(); import torch; print(time.perf_counter() - t)"
    found = []
    for _ in range(pairs):
        pair = {}
        for probed in random.sample((False, True), 2):
            with tempfile.TemporaryDirectory() as folder:
                environment = {key: value for key, value in os.environ.items() if not key.startswith("GPUDOCTOR")}
                if probed:
                    environment.update(
                        PYTHONPATH=str(PROBE / "site"), GPUDOCTOR_PROBE=str(PROBE), GPUDOCTOR_RECORDING=folder
                    )
                done = subprocess.run(
                    [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
                )
                pair[probed] = float(done.stdout)
        found.append((pair[False], pair[True]))
    return found


def started(pairs):
    """What the start of the probe takes, printed too."""
    found = start_up(pairs)
    more = interval([probed - bare for bare, probed in found])
    torch = statistics.median(bare for bare, _ in found)
    middle, low, high = (seconds * 1e3 for seconds in more)
    print(f"start-up beyond torch's import ({torch:.2f} s): {middle:+.0f} ms [{low:+.0f}, {high:+.0f}]", flush=True)
    return {"torch": torch, "more": more, "pairs": len(found)}


def main():
    """Measure and tell."""
    parser = argparse.ArgumentParser(description="Overhead of gpudoctor run.")
    parser.add_argument("--teams", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--jobs", default=";".join(JOBS), help="separated by semicolons")
    parser.add_argument("--start-pairs", type=int, default=25, help="0: the start is not measured")
    parser.add_argument("--inside", action="store_true", help="also gpudoctor.record() in the program")
    parser.add_argument("--before", type=Path, help="a checkout of an earlier version")
    parser.add_argument("--rival-python")
    parser.add_argument("--rival-jobs", default="1 ms;5 ms;20 ms, transformer", help="separated by semicolons")
    parser.add_argument("--machine", default="not named")
    parser.add_argument("--date", default="")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--show", type=Path, help="print a data file as tables, and measure nothing")
    words = parser.parse_args()
    if words.show:
        print(shown(json.loads(words.show.read_text())))
        return
    told = {"machine": words.machine, "date": words.date, "jobs": {}}
    if words.output and words.output.exists():  # what is not measured now stays
        told = json.loads(words.output.read_text()) | {"machine": words.machine, "date": words.date}

    def keep():
        if words.output:
            words.output.write_text(json.dumps(told, indent=1) + "\n")

    print(f"Machine: {words.machine}. Step, difference with its interval, share of the step, CPU time.")
    if words.start_pairs:
        told["start_up"] = started(words.start_pairs)
        keep()
    groups = [(ours(words.before, words.inside), words.jobs.split(";"))]
    if words.rival_python and Path(words.rival_python).exists():
        groups.append((rivals(words.rival_python), words.rival_jobs.split(";")))
    else:
        print("The other tools are left out: no environment with them was given (--rival-python).")
    for tools, jobs in groups:
        for job in filter(None, jobs):
            teams = [race(tools, job, words.rounds) for _ in range(words.teams)]
            for name in [name for name in tools if name != BARE]:
                figures = told["jobs"].setdefault(job, {})[name] = compared(teams, name)
                print(line(job, name, figures), flush=True)
            if BEFORE in tools:
                figures = told["jobs"][job][CHANGE] = compared(teams, "gpudoctor", BEFORE)
                print(line(job, CHANGE, figures), flush=True)
            keep()


if __name__ == "__main__":
    main()
