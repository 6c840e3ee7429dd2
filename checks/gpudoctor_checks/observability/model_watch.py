"""OBS006: histograms of all weights or gradients at a short period."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import suspicions
from gpudoctor.analysis.run.steady_run import Run, judged
from gpudoctor.analysis.source.call_frequency import TrainingCall, calls_in_training, full_batch, often
from gpudoctor.analysis.source.control_flow import switched_off
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Detail, Finding, Patient, Reads, Severity, Threshold, Trait
from gpudoctor.model.evidence import Evidence, Setting
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.configs import Configs
from gpudoctor.model.signs.source import Call, Known, Source

_HISTOGRAMS = frozenset({"add_histogram", "add_histogram_raw", "Histogram", "log_histogram_3d", "report_histogram"})
_PARAMETERS = re.compile(r"\.(?:named_)?parameters\(|state_dict\(\)|\.named_modules\(|\.modules\(")
_WATCHERS = {"wandb.watch": 1000, "wandb.Run.watch": 1000, "lightning.loggers.WandbLogger.watch": 100}
"""Calls that hook histograms into a model, and the log_freq that they have when none is given."""


@frozen
class ModelWatchDetail(Detail):
    """What the rule reads."""

    how: str
    """`watch`, `config` or `loop`."""
    period: float | None = None
    """Steps between two histograms."""
    key: str | None = None
    """Of a config."""
    every: bool | None = None
    """Parameters and gradients."""


class ModelWatch(Check):
    """Histograms of all weights or gradients are made at a short period.

    What it finds:
        - `wandb.watch` with a `log_freq` under 100.
        - `add_histogram` or `wandb.Histogram` over all parameters of a model in a training loop, more often
          than every 100 steps.
        - `watch_freq`, `histogram_freq` under 100 in configs.

        In a recording also a loop over all parameters that takes means, norms or quantiles of them.
    Why it hurts:
        A histogram reads the whole tensor, bins it and copies the bins to the host, which waits for the GPU. It
        does so for every parameter, and twice if gradients are watched too. A model of 300 tensors makes 300
        waits; `wandb.watch` at a short period can double the time of a step.
    How it knows:
        From the source: the arguments of the call, the loop over the parameters and the conditions around it.
        From configs, the written period.
    False alarms:
        Tiny models. `wandb.watch(model)` with its defaults (gradients every 1,000 steps), and histograms once
        per epoch or of single tensors, are not reported.
    Remedies:
        Use `log="gradients", log_freq=1000`, or scalars: the norm of each layer's gradient, every 100 steps.
    References:
        - https://github.com/wandb/wandb/issues/8666
        - https://docs.wandb.ai/ref/python/sdk/functions/watch/
    """

    code = Code("OBS006")
    name = "model-watch"
    traits = frozenset({Trait.INSIDE_PASSES})
    reads = frozenset({Reads.SOURCE, Reads.CONFIG, Reads.RECORDING})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="watch_period",
            default=100,
            unit="{steps}",
            source="Lightning's WandbLogger.watch and transformers use at least 100; wandb itself 1,000",
            meaning="Histograms of all weights more often than once in this many steps are a finding.",
        ),
        Threshold(
            name="occasions",
            default=20,
            unit="{times}",
            source="as for saves and evaluations: 20 times in a whole run costs little",
            meaning="What is recorded at most this often in the whole run is not a finding.",
        ),
        *Threshold.note_and_warning(
            "Histograms that take this share of a recorded run are",
            noted=0.02,
            warned=0.05,
            source="OBS002's threshold, of which it is a part",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = judged(patient)
        if run is None:
            yield from self._declared(patient)
            return
        yield from self._measured(patient, run, suspicions(lambda: self._declared(patient), run))

    def _measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
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
            detail=ModelWatchDetail(how="loop", period=1),
        )

    def _declared(self, patient: Patient) -> Iterator[Finding]:
        source, configs = patient.source_and_configs
        yield from self._from_source(source)
        yield from self._from_configs(configs)

    def _from_configs(self, configs: Configs) -> Iterator[Finding]:
        for said in configs.canonical("watch_period"):
            period = said.number
            if period is not None and said.unit == "step" and 1 <= period < self.limit("watch_period"):
                yield self._found(
                    say(
                        "{key}={period:g} records histograms of the weights {often}",
                        key=said.entry.key,
                        period=period,
                        often=often(period),
                    ),
                    (said.setting,),
                    f"{said.file.path}:{said.entry.line}",
                    ModelWatchDetail(how="config", key=said.entry.key, period=period),
                )

    def _from_source(self, source: Source) -> Iterator[Finding]:
        for script in source.scripts:
            for call in script.calls_to(*_WATCHERS, ".watch"):
                if (call.name in _WATCHERS or "wandb" in call.receiver) and not switched_off(source, call):
                    yield from self._watch(call)
        yield from self._histograms(source)

    def _watch(self, call: Call) -> Iterator[Finding]:
        what, period = call.argument("log", 2), call.argument("log_freq", 3)
        if (isinstance(what, Known) and what.value is None) or call.open_ended:
            return
        steps = _WATCHERS.get(call.name, 1000) if period is None else None
        if isinstance(period, Known) and isinstance(period.value, int) and period.value > 0:
            steps = period.value
        if steps is None or steps >= self.limit("watch_period"):
            return
        shown = str(what.value) if isinstance(what, Known) else "gradients"
        yield self._found(
            say(
                '{call}(log="{log}", log_freq={steps}) makes a histogram of every parameter and gradient {often}'
                if shown == "all"
                else '{call}(log="{log}", log_freq={steps}) makes a histogram of every parameter {often}',
                call=call.name,
                log=shown,
                steps=steps,
                often=often(steps),
            ),
            (call.span,),
            f"{call.span.path}:{call.span.line}",
            ModelWatchDetail(how="watch", period=steps, every=shown == "all"),
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
                f"{span.path}:{span.line}",
                ModelWatchDetail(how="loop", period=first.period),
            )

    def _found(self, message: str, evidence: tuple[Evidence, ...], subject: str, detail: "ModelWatchDetail") -> Finding:
        norm = say("; the norm is a period of {limit:.0f} steps or more", limit=self.limit("watch_period"))
        return self.finding(
            say("{message}{norm}.", message=message, norm=norm),
            evidence=evidence,
            subject=subject if not isinstance(evidence[0], Setting) else f"{subject} {evidence[0].key}",
            detail=detail,
        )


def _of_all_weights(found: TrainingCall) -> bool:
    """Whether a histogram stands in a loop over a model's parameters, or in a comprehension over them."""
    call = found.call
    if call.method not in _HISTOGRAMS or not (call.receiver or call.name.startswith("wandb.")):
        return False
    if any(item is not found.loop and _PARAMETERS.search(item.iterates) for item in found.event.inner):
        return True
    return any(
        isinstance(part, ast.comprehension) and _PARAMETERS.search(ast.unparse(part.iter))
        for part in ast.walk(call.node)
    )
