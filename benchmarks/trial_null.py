"""How often a trial says `faster`: of identical commands (error), of ones 5 % and 10 % faster (power).

    python benchmarks/trial_null.py [--trials N] [--noise CSV] [--seed S]

Simulated windows with four kinds of noise (normal 1 % and 3 %, Student's t with 3 degrees of freedom, and a
drifting machine with stalls in one window of twelve), and with the measured noise of `--noise`: a CSV with a
column `seconds` of repeated windows of one command, resampled in blocks of eight so that neighbours stay
neighbours; several commands, by its column `command`, are drawn from in turn.
"""

import argparse
import csv
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from gpudoctor.trial.decision import LOOKS, WindowPair, candidate_goes_first, decide

NOISE = Path(__file__).parent / "data" / "trial-noise.csv"
BLOCK = 8
"""Windows that stay together when measured ones are resampled: four pairs."""
SPEEDUPS = (1.0, 1.05, 1.10)
VERDICTS = ("faster", "slower", "no clear difference")
Noise = Callable[[random.Random], Callable[[], float]]


def normal(sigma: float) -> Noise:
    """Independent windows."""
    return lambda rng: lambda: math.exp(rng.gauss(0, sigma))


def heavy(rng: random.Random) -> Callable[[], float]:
    """Student's t with 3 degrees of freedom, scaled to 1.5 %."""
    return lambda: math.exp(0.015 * rng.gauss(0, 1) / math.sqrt(rng.gammavariate(1.5, 2 / 3)))


def drifting(rng: random.Random) -> Callable[[], float]:
    """A random walk shared by neighbours, 1.5 % noise, and a stall of 20 to 200 % in one window of twelve."""
    state = [0.0]

    def window() -> float:
        state[0] += rng.gauss(0, 0.01)
        stall = rng.uniform(0.2, 2.0) if rng.random() < 1 / 12 else 0.0
        return math.exp(state[0] + rng.gauss(0, 0.015)) * (1 + stall)

    return window


def resampled(series: list[list[float]]) -> Noise:
    """Windows that were measured, of one command a trial, in blocks of neighbours."""

    def start(rng: random.Random) -> Callable[[], float]:
        seconds = rng.choice(series)
        pending: list[float] = []

        def window() -> float:
            if not pending:
                at = rng.randrange(max(1, len(seconds) - BLOCK + 1))
                pending.extend(reversed(seconds[at : at + BLOCK]))
            return pending.pop()

        return window

    return start


def read_noise(path: Path) -> dict[str, list[float]]:
    """Seconds by command, in their order."""
    found: dict[str, list[float]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row.get("command") or "", []).append(float(row["seconds"]))
    return found


def trial(rng: random.Random, noise: Noise, speedup: float) -> tuple[str, int]:
    """One sequential trial: its verdict and its pairs."""
    window = noise(rng)
    pairs: list[WindowPair] = []
    while True:
        first = candidate_goes_first(len(pairs))
        one, two = window(), window()
        base, cand = (two, one) if first else (one, two)
        pairs.append(WindowPair(baseline=base, candidate=cand / speedup, candidate_first=first))
        if len(pairs) in LOOKS:
            decision = decide(pairs)
            if decision.final:
                return decision.verdict, len(pairs)


def simulate(kinds: dict[str, Noise], trials: int, seed: int) -> None:
    """Print a row for each noise and speedup: shares of the verdicts, and pairs on average."""
    for name, noise in kinds.items():
        for speedup in SPEEDUPS:
            rng = random.Random(seed)
            results = [trial(rng, noise, speedup) for _ in range(trials)]
            shares = "".join(f"{sum(found == word for found, _ in results) / trials:>9.2%}" for word in VERDICTS)
            pairs = sum(count for _, count in results) / trials
            print(f"{name:<18}{speedup:>6.2f}{shares}{pairs:>7.1f}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=4000)
    parser.add_argument("--noise", type=Path, default=NOISE)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    kinds: dict[str, Noise] = {
        "normal 1 %": normal(0.01),
        "normal 3 %": normal(0.03),
        "t(3) 1.5 %": heavy,
        "drift and stalls": drifting,
    }
    measured = read_noise(given.noise) if given.noise.exists() else {}
    if measured:
        kinds["measured"] = resampled(list(measured.values()))
    print(f"{'noise':<18}{'true':>6}{'faster':>9}{'slower':>9}{'unclear':>9}{'pairs':>7}")
    simulate(kinds, given.trials, given.seed)


if __name__ == "__main__":
    main()
