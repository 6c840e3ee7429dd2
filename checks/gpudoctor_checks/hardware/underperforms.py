"""GPU009 underperforms."""

from collections.abc import Iterator, Sequence
from statistics import median

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded
from gpudoctor.lang import say
from gpudoctor.model import Check, Cost, Facts, Finding, Patient, Reads, Threshold, Whose
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import percent


class Underperforms(Check):
    """One GPU computes more slowly than its siblings.

    What it finds:
        A rank whose device reaches less than 85 % of the other ranks' speed in the same forward pass.
    Why it hurts:
        All others wait for it in every step.
    How it knows:
        From a recording of several ranks: the device's own time for the forward passes, aligned by step. The
        backward pass includes waiting for others and is not counted. Less than 1 ms a step is noise. The time
        in which the device may have waited for its host is not counted.
    False alarms:
        Longer sequences on one rank have the same effect. If samples and tokens are counted, they must agree
        within 5 % between ranks.
    Remedies:
        Check its clocks, its temperature and other processes on it; use another node until then.
    References:
        - https://github.com/Azure/azurehpc-health-checks
        - https://github.com/intelligent-machine-learning/dlrover
    """

    code = "GPU009"
    judges = "GPU speed"
    reads = frozenset({Reads.RECORDING, Reads.ENVIRONMENT})
    thresholds = (
        Threshold("speed", 0.85, "1", "AzNHC",
                  "A device below this share of the median speed underperforms."),
        Threshold("work", 0.05, "1", "convention: ranks draw batches of one size",
                  "Samples or tokens of the ranks may differ by this share."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient, 100)
        states = [state for state in run.states if state.known("device_forward")]
        if len(states) < 2:
            raise Unavailable(say("fewer than two ranks recorded their device's time"))
        times = [state.per_step("device_forward") for state in states]
        worst = max(range(len(times)), key=times.__getitem__)
        usual = median(times[:worst] + times[worst + 1 :])
        surely = times[worst] - states[worst].per_step("device_idle")  # it may have waited for its host meanwhile
        slower = surely - usual >= of_run.FLOOR and usual / surely < self.limit("speed")
        if usual <= 0 or not slower or not self._alike(states, worst):
            return
        process = states[worst].process
        yield self.finding(
            say(
                "The device of rank {rank} ({node}) needs {time:.3g} ms per forward pass, the median of the others "
                "{usual:.3g} ms. It reaches {speed} of their speed.",
                rank=process.rank,
                node=process.node,
                time=times[worst] * 1e3,
                usual=usual * 1e3,
                speed=percent(usual / times[worst]),
            ),
            evidence=(
                run.measured(f"rank{process.rank}_device_forward", times[worst], "s"),
                run.measured("median_device_forward", usual, "s"),
            ),
            cost=Cost(step_share=1 - usual / times[worst], whose=Whose.STEPS),
            subject=f"rank {process.rank}",
            detail=Facts(node=process.node, rank=process.rank),
        )

    def _alike(self, states: "Sequence[of_run.Steady]", worst: int) -> bool:
        """Whether that rank has no more to do than the others, as far as batches were counted."""
        for column in ("tokens", "samples"):
            if all(state.known(column) for state in states):
                amounts = [state.per_step(column) for state in states]
                return amounts[worst] <= (1 + self.limit("work")) * median(amounts)
        return True
