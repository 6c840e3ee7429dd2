"""What `gpudoctor run` costs a training: step times with and without the probe, and others beside it.

    python benchmarks/run_overhead.py [--pairs 30] [--only JOB] [--start-pairs 10] [--rival-python PYTHON]
        [--rival-pairs 5] [--rival-jobs JOB;JOB] [--machine WORDS] [--date DATE] [--output FILE]

Training runs in blocks of steps (about a quarter of a second each). Between the blocks the probe's hooks are
taken out of torch and its thread is stopped, or put back; blocks with, without and without again come in random
order. `A/A` compares the two without, and is what the method itself cannot tell apart. A figure is the median
over the pairs of the difference of the blocks' mean step times, with an interval of 95 % from the pairs' order;
all that the probe does is in it, its readings at their cadence and its writing too.

Taking it out and putting it back makes CPython adapt the code of torch's classes anew, so these figures are
above those of a run that is left alone. `gpudoctor, process` are pairs of processes, bare and under `gpudoctor
run`, that time their own steps, and `A/A, process` pairs of two bare ones; TraceML (with its marker),
train-doctor and torch.profiler are measured in the same way. They need an environment with torch,
`traceml-ai` and `train-doctor` (`--rival-python`); without one they are left out, and that is said.
"""

import argparse
import compileall
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from overhead_jobs import JOBS

HERE = Path(__file__).resolve().parent
PROBE = HERE.parent / "gpudoctor" / "probe"
SECONDS = 6.0
"""How long a process of a rival's pair trains."""


def begin_probe(folder):
    """Install the probe as its sitecustomize would."""
    os.environ.update(GPUDOCTOR_PROBE=str(PROBE), GPUDOCTOR_RECORDING=folder)
    names = {"__name__": "_gpudoctor_boot"}
    exec(compile((PROBE / "boot.py").read_text(), str(PROBE / "boot.py"), "exec"), names)
    names["boot"](str(PROBE))
    waiting = sys.meta_path[0]
    started = time.perf_counter()
    waiting.imported("torch")
    return waiting.probe, time.perf_counter() - started


class Switch:
    """Puts the probe in and out."""

    def __init__(self, probe):
        import torch.optim.optimizer as optimizer

        self.probe = probe
        registries = (optimizer._global_optimizer_pre_hooks, optimizer._global_optimizer_post_hooks)
        self.registries = [(registry, dict(registry)) for registry in registries]
        self.inside = True

    def set(self, inside):
        """In or out."""
        if inside == self.inside:
            return
        self.inside = inside
        if inside:
            self.probe.guard.restore()
            self.probe.pace.leave()
            self.probe.steps.last = self.probe.clock.mark = time.perf_counter()
            self.probe.sampler.start()
        else:
            self.probe.sampler.stop()
            self.probe.guard.withdraw()
        for registry, hooks in self.registries:
            registry.clear()
            registry.update(hooks if inside else {})


def block(step, count):
    """Mean wall and CPU seconds of a step, after a few to settle."""
    for _ in range(3):
        step()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        step()
    return (time.perf_counter() - wall) / count, (time.process_time() - cpu) / count


def measure(name, pairs):
    """One job in this process: `[wall, cpu]` of the blocks of each kind."""
    import torch
    import torch._dynamo

    torch.set_num_threads(1)
    torch.manual_seed(0)
    random.seed(0)
    with tempfile.TemporaryDirectory() as folder:
        probe, install = begin_probe(folder)
        switch = Switch(probe)
        make, count = JOBS[name]
        step = make()
        for _ in range(3 * count):  # warm-up, with the probe's first readings
            step()
        results = {"with": [], "without": [], "again": []}
        for _ in range(pairs):
            order = list(results)
            random.shuffle(order)
            for kind in order:
                switch.set(kind == "with")
                results[kind].append(block(step, count))
        switch.set(True)
        lost = probe.file.broken
    return {"install": install, "lost": lost, **results}


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
                environment = {
                    key: value for key, value in os.environ.items() if not key.startswith("GPUDOCTOR")
                }
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


def commands(python):
    """How the rivals are started: name, words before the job's script, words after it."""
    scripts = Path(python).parent
    return (
        ("TraceML 0.5.0, marker", [str(scripts / "traceml"), "run", "JOB", "--args"], ["--marker"]),
        (
            "train-doctor 0.2.0",
            [
                str(scripts / "train-doctor"),
                "profile",
                "--steps",
                "100000000",
                "--timeout",
                "120",
                "--",
                python,
                "JOB",
            ],
            [],
        ),
        ("torch.profiler", [python, "JOB"], ["--profiler"]),
    )


def processes(python, jobs, pairs, tell):
    """Pairs of processes, bare and under each tool, ours the first."""
    gpudoctor = [
        sys.executable,
        "-m",
        "gpudoctor",
        "run",
        "--quiet",
        "--recording",
        "recording",
        "--",
        sys.executable,
        "JOB",
    ]
    bare = [sys.executable, "JOB"]
    tools = [("gpudoctor, process", sys.executable, gpudoctor, []), ("A/A, process", sys.executable, bare, [])]
    if python and Path(python).exists():
        tools += [(name, python, before, after) for name, before, after in commands(python)]
    else:
        print("The other tools are left out: no environment with them was given (--rival-python).")
    script = str(HERE / "overhead_jobs.py")
    for job in jobs:
        for name, python, before, after in tools:
            results = {"without": [], "with": []}
            for _ in range(pairs):
                for kind in random.sample(("without", "with"), 2):
                    words = (
                        [script if word == "JOB" else word for word in before]
                        if kind == "with"
                        else [python, script]
                    )
                    result = alone(words, job, after if kind == "with" else [])
                    if result is None:
                        break
                    results[kind].append(result)
            usable = min(map(len, results.values()))
            if usable < pairs:
                print(f"{name}: left out at {job}, it did not run")
                continue
            tell(job, name, compared(results["without"], results["with"]))


def alone(words, job, after):
    """One process; `[wall, cpu]` of its steps, None where it failed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "steps.json"
        arguments = [job, str(SECONDS), str(file), *after]
        done = subprocess.run([*words, *arguments], cwd=folder, capture_output=True, text=True, check=False)
        if not file.exists():
            print((done.stderr or done.stdout)[-600:])
            return None
        told = json.loads(file.read_text())
        return told["wall"], told["cpu"]


def interval(values):
    """Median and an interval of about 95 % for it, from the order of the values."""
    ordered = sorted(values)
    n = len(ordered)
    reach = int(0.98 * n**0.5)
    return statistics.median(ordered), ordered[max(0, n // 2 - reach)], ordered[min(n - 1, n // 2 + reach)]


def compared(without, other):
    """Seconds of a step, and the differences in wall and CPU time with their intervals."""
    base = statistics.median(wall for wall, _ in without)
    wall, cpu = (interval([b[at] - a[at] for a, b in zip(without, other, strict=True)]) for at in (0, 1))
    return {"step": base, "wall": wall, "cpu": cpu, "pairs": len(without)}


def line(job, label, figures):
    """One line of the table."""
    (wall, low, high), (cpu, _, _) = figures["wall"], figures["cpu"]
    step = figures["step"]
    return (
        f"{job:20} {label:22} {step * 1e3:7.2f} ms {wall * 1e6:+8.1f} us"
        f" [{low * 1e6:+8.1f}, {high * 1e6:+8.1f}] {wall / step:+7.2%}  CPU {cpu * 1e6:+8.1f} us"
    )


def ours(jobs, pairs, tell):
    """The probe on every job, each in a process of its own."""
    for job in jobs:
        done = subprocess.run(
            [sys.executable, __file__, "--child", job, "--pairs", str(pairs)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            print(job, done.stderr[-2000:])
            continue
        result = json.loads(done.stdout.splitlines()[-1])
        kinds = {"gpudoctor": "with", "A/A": "again"}
        for name, kind in kinds.items():
            tell(job, name, compared(result["without"], result[kind]))


def main():
    """Measure and tell."""
    parser = argparse.ArgumentParser(description="Overhead of gpudoctor run.")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--only", default="")
    parser.add_argument("--start-pairs", type=int, default=10, help="0: the start is not measured")
    parser.add_argument("--rival-python")
    parser.add_argument("--processes-only", action="store_true")
    parser.add_argument("--rival-pairs", type=int, default=5)
    parser.add_argument("--rival-jobs", default="1 ms;5 ms;20 ms, transformer", help="separated by semicolons")
    parser.add_argument("--machine", default="not named")
    parser.add_argument("--date", default="")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.child:
        print(json.dumps(measure(words.child, words.pairs)))
        return
    jobs = [job for job in JOBS if words.only in job]
    told = {"machine": words.machine, "date": words.date, "jobs": {job: {} for job in jobs}}

    def tell(job, name, figures):
        """A figure is known: it is printed, and kept should the rest never end."""
        print(line(job, name, figures), flush=True)
        told["jobs"][job][name] = figures
        keep(told, words.output)

    print(f"Machine: {words.machine}. Step, difference with its 95 % interval, share of the step, CPU time.")
    if words.start_pairs:
        told["start_up"] = started(words.start_pairs)
        keep(told, words.output)
    if not words.processes_only:
        ours(jobs, words.pairs, tell)
    alike = [job for job in jobs if job in words.rival_jobs.split(";")]
    processes(words.rival_python, alike, words.rival_pairs, tell)


def started(pairs):
    """What the start of the probe takes, printed too."""
    found = start_up(pairs)
    more = interval([probed - bare for bare, probed in found])
    alone = statistics.median(bare for bare, _ in found)
    middle, low, high = (seconds * 1e3 for seconds in more)
    print(
        f"start-up beyond torch's import ({alone:.2f} s): {middle:+.0f} ms [{low:+.0f}, {high:+.0f}]",
        flush=True,
    )
    return {"torch": alone, "more": more, "pairs": len(found)}


def keep(told, output):
    """Write what is known so far."""
    if output:
        output.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
