"""OBS006: histograms of all weights or gradients at a short period."""

import re
from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import Run
from gpudoctor.analysis.source.call_frequency import TrainingCall, calls_in_training, full_batch, often
from gpudoctor.analysis.source.control_flow import switched_off
from gpudoctor.lang import say
from gpudoctor.model import Facts, Finding, Patient, Reads, Threshold, Trait
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.signs.source import Call, Known, Source
from gpudoctor_checks.run_check import RunCheck

_HISTOGRAMS = frozenset({"add_histogram", "Histogram", "report_histogram"})
_PARAMETERS = re.compile(r"\.(?:named_)?parameters\(|state_dict\(\)")
_WATCHERS = frozenset({"wandb.watch", "wandb.Run.watch", "lightning.loggers.WandbLogger.watch"})
"""Calls that hook histograms into a model; unless told otherwise, they do it seldom enough."""


class ModelWatch(RunCheck):
    """Histograms of all weights or gradients are made at a short period.

    What it finds:
        - `wandb.watch` with a `log_freq` under 100.
        - `add_histogram` or `wandb.Histogram` over all parameters of a model in a training loop, more often
          than every 100 steps.

        In a recording also a loop over all parameters that takes means, norms or quantiles of them.
    Why it hurts:
        A histogram reads the whole tensor, bins it and copies the bins to the host, which waits for the GPU. A
        model of 300 tensors makes 300 waits; `wandb.watch` at a short period can double the time of a step.
    How it knows:
        From the source: the arguments of the call, the loop over the parameters and the conditions around it.
    False alarms:
        Tiny models. `wandb.watch(model)` with its defaults (gradients every 1,000 steps), and histograms once
        per epoch or of single tensors, are not reported.
    Remedies:
        Use `log="gradients", log_freq=1000`, or scalars: the norm of each layer's gradient, every 100 steps.
    References:
        - https://github.com/wandb/wandb/issues/8666
    """

    code = "OBS006"
    traits = frozenset({Trait.INSIDE_PASSES})
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    thresholds = (
        Threshold(
            "watch_period",
            100,
            "{steps}",
            "Lightning's WandbLogger.watch and transformers use at least 100; wandb itself 1,000",
            "Histograms of all weights more often than once in this many steps are a finding.",
        ),
        Threshold(
            "occasions",
            20,
            "{times}",
            "as for saves and evaluations: 20 times in a whole run costs little",
            "What is recorded at most this often in the whole run is not a finding.",
        ),
        *Threshold.note_and_warning(
            "Histograms that take this share of a recorded run are",
            noted=0.02,
            warned=0.05,
            source="OBS002's threshold, of which it is a part",
        ),
    )

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        seen = of_run.price(
            patient,
            run,
            owners=(of_run.LineOwner.HISTOGRAMS,),
            wanted=lambda site: of_run.watches(site.what) or "histogram" in site.what,
        )
        severity = seen.level(self)
        if severity is None:
            return
        seen = seen.also_at(of_run.callers(patient, seen.spans[:1]))
        yield seen.finding(
            self,
            say(
                "Statistics of all weights take {cost}{of_a_step}{where}.",
                cost=seen.words,
                of_a_step=seen.of_a_step,
                where=of_run.at(seen.spans),
            ),
            name="histogram_share",
            severity=severity,
            suspected=suspected,
            detail=Facts(how="loop"),
        )

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        source = patient.source
        for script in source.scripts:
            for call in script.calls_to(*_WATCHERS, ".watch"):
                if (call.name in _WATCHERS or "wandb" in call.receiver) and not switched_off(source, call):
                    yield from self._watch(call)
        yield from self._histograms(source)

    def _watch(self, call: Call) -> Iterator[Finding]:
        what, period = call.argument("log", 2), call.argument("log_freq", 3)
        steps = period.value if isinstance(period, Known) and isinstance(period.value, int) else 0
        if isinstance(what, Known) and what.value is None:
            return
        if 0 < steps < self.limit("watch_period"):
            yield self._found(
                say(
                    "{call}(log_freq={steps}) makes a histogram of every parameter {often}",
                    call=call.name,
                    steps=steps,
                    often=often(steps),
                ),
                (call.span,),
                "watch",
            )

    def _histograms(self, source: Source) -> Iterator[Finding]:
        for found in calls_in_training(
            source,
            lambda item: _of_all_weights(item) and not item.at_most(self.limit("occasions")),
            every=self.limit("watch_period"),
            skip=full_batch,
            distinct=True,
        ):
            first = min(found, key=lambda item: item.period)
            span = first.event.span
            yield self._found(
                say(
                    "{method}() over all parameters of the model {often}",
                    method=first.call.method,
                    often=often(first.period),
                ),
                (span, *first.event.via, *(item.event.span for item in found if item is not first)),
                "loop",
            )

    def _found(self, message: str, spans: tuple[SourceSpan, ...], how: str) -> Finding:
        norm = say("; the norm is a period of {limit:.0f} steps or more", limit=self.limit("watch_period"))
        return self.finding(say("{message}{norm}.", message=message, norm=norm), evidence=spans, detail=Facts(how=how))


def _of_all_weights(found: TrainingCall) -> bool:
    """Whether a histogram stands in a loop over a model's parameters."""
    call = found.call
    if call.method not in _HISTOGRAMS or not (call.receiver or call.name.startswith("wandb.")):
        return False
    return any(item is not found.loop and _PARAMETERS.search(item.iterates) for item in found.event.inner)
