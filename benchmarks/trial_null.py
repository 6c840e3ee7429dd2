"""How often a trial says `faster`: of identical commands (error), of ones 5 % and 10 % faster (power).

    python benchmarks/trial_null.py [--trials N] [--noise CSV] [--seed S]

Simulated windows with the noise of `--noise` (a CSV with a column `seconds` of repeated windows of one command,
resampled in blocks of two so that neighbours stay neighbours), else four kinds: normal 1 % and 3 %, Student's t
with 3 degrees of freedom, and a drifting machine with stalls in one window of twelve.
"""

import argparse
import csv
import math
import random
from collections.abc import Callable

from gpudoctor.trial.decision import LOOKS, decide
from gpudoctor.trial.pairs import Pair, candidate_goes_first

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


def resampled(path: str) -> Noise:
    """Windows that were measured."""
    with open(path, encoding="utf-8", newline="") as file:
        seconds = [float(row["seconds"]) for row in csv.DictReader(file)]

    def start(rng: random.Random) -> Callable[[], float]:
        pending: list[float] = []

        def window() -> float:
            if not pending:
                at = rng.randrange(len(seconds) - 1)
                pending.extend((seconds[at + 1], seconds[at]))
            return pending.pop()

        return window

    return start


def trial(rng: random.Random, noise: Noise, speedup: float) -> tuple[str, int]:
    """One sequential trial: its verdict and its pairs."""
    window = noise(rng)
    pairs: list[Pair] = []
    while True:
        first = candidate_goes_first(len(pairs))
        one, two = window(), window()
        base, cand = (two, one) if first else (one, two)
        pairs.append(Pair(baseline=base, candidate=cand / speedup, candidate_first=first))
        if len(pairs) in LOOKS:
            decision = decide(pairs)
            if decision.final:
                return decision.verdict, len(pairs)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=4000)
    parser.add_argument("--noise")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    kinds: dict[str, Noise] = {
        "normal 1 %": normal(0.01),
        "normal 3 %": normal(0.03),
        "t(3) 1.5 %": heavy,
        "drift and stalls": drifting,
    }
    if args.noise:
        kinds["measured"] = resampled(args.noise)
    print(f"{'noise':<18}{'true':>6}{'faster':>9}{'slower':>9}{'unclear':>9}{'pairs':>7}")
    for name, noise in kinds.items():
        for speedup in (1.0, 1.05, 1.10):
            rng = random.Random(args.seed)
            results = [trial(rng, noise, speedup) for _ in range(args.trials)]
            share = {
                verdict: sum(found == verdict for found, _ in results) / len(results)
                for verdict in ("faster", "slower", "no clear difference")
            }
            mean = sum(count for _, count in results) / len(results)
            print(
                f"{name:<18}{speedup:>6.2f}{share['faster']:>9.2%}{share['slower']:>9.2%}"
                f"{share['no clear difference']:>9.2%}{mean:>7.1f}"
            )


if __name__ == "__main__":
    main()
