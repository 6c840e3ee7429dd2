"""Models that run with gradients and that no optimizer steps: teachers, and models that were forgotten."""

import ast
import re

from gpudoctor.model.patient import Patient
from gpudoctor.model.reading.recordings.costs import place_of
from gpudoctor.model.reading.recordings.curves import numerics
from gpudoctor.model.reading.recordings.judged import script_at, source_of
from gpudoctor.model.reading.recordings.statements import calls_on, statement_at
from gpudoctor.model.signs.recording import Process, Record
from gpudoctor.model.signs.source import Source

_NAMES = re.compile(
    r"teach|guide|oracle|expert|target|frozen|\bref|_ref|ref_|refer|prior|old|ema\b|ema_|avg|average|momentum|"
    r"pretrain|vgg|lpips|percept|reward|critic|judge|embedder|extract|backbone|\bbase",
    re.IGNORECASE,
)
"""Words for a model that others learn from."""
_SETS = re.compile(
    r"load_state_dict|load_weights|load_checkpoint|from_pretrained|deepcopy|copy_|requires_grad_?|eval|freeze|"
    r"load|no_grad",
)
"""Calls after which a model's weights are not those it was made with, or are meant to stay."""
_OPTIMIZERS = re.compile(r"(^torch\.optim\.|\.)(Adam\w*|SGD|Lion|Adafactor|RMSprop|Adagrad|LBFGS|Muon)$")


def forgotten(patient: Patient, process: Process, least: float) -> list[Record]:
    """Those that gradients reach, that are as they were made, and that nothing calls a teacher.

    Without the source nobody can tell: none.
    """
    return [item for item in _bystanders(process, least) if _forgotten(patient, item)]


def teachers(patient: Patient, process: Process, least: float) -> list[Record]:
    """The others."""
    return [item for item in _bystanders(process, least) if not _forgotten(patient, item)]


def _bystanders(process: Process, least: float) -> list[Record]:
    return [
        item
        for item in numerics(process, "mode")
        if item.get("kind_of") == "teacher-grad" and int(item.get("steps") or 0) >= least
    ]


def _forgotten(patient: Patient, item: Record) -> bool:
    source, where = source_of(patient), place_of(item)
    if source is None or where is None or item.get("reached") is not True or item.get("training") is False:
        return False
    script = script_at(patient, where.path)
    whole = statement_at(script, where.line) if script is not None else None
    if script is None or whole is None or _NAMES.search(str(item.get("model") or "")):
        return False
    called = {ast.unparse(call.node.func) for call in calls_on(script, whole)}
    names = {text.rpartition(".")[2] for text in called if re.fullmatch(r"[\w.]+", text)}
    stepped = _texts(source, _OPTIMIZERS)
    left = {name for name in names if not any(_word(name, text) for text in stepped)}
    if not left or any(map(_NAMES.search, called)):
        return False
    # Of several calls on the line one is the model's: it was forgotten where all that may be it were.
    return not any(_word(name, text) for name in left for text in _texts(source, _SETS))


def _texts(source: Source, method: re.Pattern[str]) -> list[str]:
    """What calls of a kind are made on, given and bound to, as text."""
    return [
        script.text_lines[call.span.line - 1] + " " + ast.unparse(call.node)
        for script in source.scripts
        for call in script.calls
        if method.search(call.name) or method.fullmatch(call.method)
    ]


def _word(name: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None
