"""How often a framework's loop logs, evaluates and saves: the argument that says it, and the period to set.

The period is as long as it must be for the measured cost to fall to a fiftieth of a step, and no longer than
half of a run whose length is written down or was recorded.
"""

import math
import sys

from gpudoctor.analysis.run.steady_run import judged, recorded
from gpudoctor.analysis.source.syntax import words
from gpudoctor.model.finding import Finding
from gpudoctor.model.patient import Patient
from gpudoctor.model.signs.source import Call, Known

HF_CONFIGS = words(
    "TrainingArguments Seq2SeqTrainingArguments SFTConfig DPOConfig KTOConfig ORPOConfig CPOConfig RewardConfig "
    "SentenceTransformerTrainingArguments UnslothTrainingArguments GaudiTrainingArguments ORTTrainingArguments"
)
"""transformers.TrainingArguments and the classes that extend it; not those whose steps generate text and take
long (GRPO, PPO), where a line for each step costs nothing."""

PHASES = {"log": "logging", "eval": "evaluation", "save": "checkpoint"}
"""What is done too often, and the phase of a recording that its time goes to."""

OVERRIDES = {name: f"TrainingArguments.{name}" for name in ("logging_steps", "eval_steps", "save_steps")}
"""Field of TrainingArguments to the runtime override that sets it."""

OCCASIONS = 20
"""How often something happens in a run whose length is known."""
_LEFT = 0.02
"""Share of a step that what is thinned may still take."""
_ROUND = (1, 2, 5, 10)


def cheap_period(share: float, now: float, watching: float) -> int:
    """Passes between two runs, so that what takes `share` of the time every `now` passes takes a fiftieth.

    `watching` is the share of all that could be thinned, this included: the step without it is the measure.
    """
    rest = 1 - min(0.99, max(share, watching))
    needed = max(1.0, now) * share / rest / _LEFT
    if needed <= 1:
        return 1
    grain = 10 ** math.floor(math.log10(needed))
    return next(int(grain * part) for part in _ROUND if grain * part >= needed)


def period_for(finding: Finding, patient: Patient, default: int, now: float | None, norm: float | None) -> int:
    """The period for what a finding has measured; never less than the default or the norm.

    `now` are the steps between two of them, None where nobody knows.
    """
    share = finding.cost.share or 0.0
    every = max(default, int(norm or 1), cheap_period(share, float(now or 1), _watching(patient)))
    return min(every, _longest(patient))


def _longest(patient: Patient) -> int:
    """Half of a recorded run that came to its own end: what comes later comes once, or never."""
    run, recording = judged(patient), recorded(patient)
    end = recording.end if recording is not None else None
    if run is None or end is None or end.exit_code != 0 or end.stopped_by is not None:
        return sys.maxsize
    return max(1, run.lead.steps // 2)


def engine_period(patient: Patient, kind: str, now: float, default: int, steps: int | None, norm: int = 1) -> int:
    """The period for a framework's loop that logs (`log`), evaluates (`eval`) or saves (`save`) too often.

    `steps` are those of the whole run, where they are written down. A shorter period than `norm` would be found
    again.
    """
    usual = max(norm, min(default, steps // OCCASIONS)) if steps else max(norm, default)
    run = judged(patient)
    cheap = cheap_period(run.share(PHASES[kind]), now, _watching(patient)) if run is not None else 1
    return min(max(usual, cheap), max(1, steps // 2) if steps else _longest(patient))


def _watching(patient: Patient) -> float:
    run = judged(patient)
    return run.share("evaluation", "checkpoint", "logging", "profiler") if run is not None else 0.0


def number(call: Call, name: str) -> float | None:
    """A keyword's number; None where it is none, or not known."""
    value = call.keywords.get(name)
    known = value.value if isinstance(value, Known) else None
    return float(known) if isinstance(known, int | float) and not isinstance(known, bool) else None
