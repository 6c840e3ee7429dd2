"""`gpudoctor estimate --trace`: a child runs the real code on fake tensors; its answer is the estimate."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpudoctor.errors import UsageError
from gpudoctor.estimate.analytic.state import WORKSPACE, WORKSPACE_HOPPER
from gpudoctor.estimate.answer import Answer
from gpudoctor.estimate.card import read_card
from gpudoctor.estimate.fit import METHODS
from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.result import Device, Estimate, Reach
from gpudoctor.estimate.shapes import ModelShape
from gpudoctor.estimate.traced import ask_for_traces
from gpudoctor.estimate.traced.traced_estimate import Traced, from_object
from gpudoctor.lang import say

if TYPE_CHECKING:
    from gpudoctor.estimate.config_json import UnknownArchitecture

_FORMULAS_ONLY = ("fit", "explain")


def traced_answer(
    name: str, shape: ModelShape | None, config: Mapping[str, Any] | None, jobs: Sequence[TrainingJob],
    card: Device | None, own: bool, assumptions: Sequence[str], arguments: argparse.Namespace,
) -> Answer:  # fmt: skip
    """The answer by transformers' own class: of a known shape, or of the config.json of whatever it is."""
    _refuse_formulas(arguments, name)
    hopper = card is not None and card.capability is not None and card.capability >= (9, 0)
    request = {
        "shape": None if shape is None else asdict(shape), "config": config,
        "jobs": [asdict(job) for job in jobs], "workspace": WORKSPACE_HOPPER if hopper else WORKSPACE,
    }  # fmt: skip
    answer = ask_for_traces(request)
    estimates, traces, left_out = [], [], []
    for job, data in zip(jobs, answer["traced"], strict=True):
        if "error" in data:
            left_out.append(say("{method} is left out: {error}", method=job.method, error=data["error"]))
            continue
        traces.append(from_object(data))
        model = shape or _shape(name, answer["model"], traces[-1])
        estimates.append(_estimate(model, job, traces[-1], card))
    if not estimates:
        raise UsageError("{name}: {error}", name=name, error=answer["traced"][0]["error"])
    return Answer(
        shape=estimates[0].shape, estimates=tuple(estimates), device=card, own=own,
        assumptions=(*assumptions, *left_out), traced=tuple(traces),
    )  # fmt: skip


def unknown_answer(
    unknown: "UnknownArchitecture", card: Device | None, own: bool, arguments: argparse.Namespace
) -> Answer:
    """The answer for an architecture that no formula knows."""
    from gpudoctor.cli.estimate_flags import job_fields

    fields: dict[str, Any] = job_fields(arguments)
    methods = (fields.pop("method"),) if "method" in fields else METHODS
    jobs = [TrainingJob(**fields, method=method) for method in methods]
    kind = unknown.config.get("model_type")
    said = say("gpudoctor has no formula for the architecture {kind}: it traced transformers' own class", kind=kind)
    name: str = arguments.model or arguments.targets[0]
    return traced_answer(name, None, unknown.config, jobs, card, own, (said,), arguments)


def _refuse_formulas(arguments: argparse.Namespace, name: str) -> None:
    for flag in _FORMULAS_ONLY:
        if getattr(arguments, flag):
            raise UsageError(
                "--{flag} works on formulas, and {name} is only traced; remove --{flag}", flag=flag, name=name
            )


def _shape(name: str, model: Mapping[str, Any], traced: Traced) -> ModelShape:
    """A shape of the same widths whose count of parameters is the one of the class."""
    heads = model.get("num_attention_heads")
    heads = heads if isinstance(heads, int) and heads > 0 else 1
    hidden = model.get("hidden_size")
    hidden = hidden if isinstance(hidden, int) and hidden > 0 else 1
    values: dict[str, Any] = {
        "name": name, "family": str(model.get("model_type")), "layers": max(traced.layers, 1),
        "hidden": hidden, "heads": heads, "kv_heads": heads, "head_dim": max(hidden // heads, 1), "mlp": 0,
        "vocab": 0,
    }  # fmt: skip
    rest = traced.parameters - ModelShape(**values).parameters.total
    return ModelShape(**values, extras=((say("as counted by its class"), rest),))


def _estimate(shape: ModelShape, job: TrainingJob, traced: Traced, card: Device | None) -> Estimate:
    """The trace in the form of an estimate, with what the card will show."""
    peak = traced.peak
    reach = Reach(low=peak.bytes, high=peak.bytes, least=peak.bytes)
    return Estimate(
        shape=shape, job=job, instants=traced.instants, peak=peak, static=traced.static, reach=reach,
        card=read_card(job, traced.instants, peak, reach, card),
    )  # fmt: skip
