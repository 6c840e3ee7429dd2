"""Models that run with gradients and that no optimizer steps: teachers, and models that were forgotten."""

import ast
import re

from gpudoctor.analysis.run.curves import newest, numerics
from gpudoctor.analysis.run.line_costs import place_of
from gpudoctor.analysis.run.recorded_statements import calls_on, statement_at
from gpudoctor.analysis.run.steady_run import script_at, source_of
from gpudoctor.analysis.source.control_flow import statement
from gpudoctor.model.patient import Patient
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.recording import Process, Record
from gpudoctor.model.signs.source import Call, Source

_NAMES = re.compile(
    r"teach|guide|oracle|expert|target|frozen|\bref|_ref|ref_|refer|prior|old|ema\b|ema_|avg|average|momentum|"
    r"pretrain|vgg|lpips|percept|reward|critic|judge|embedder|extract|backbone|\bbase",
    re.IGNORECASE,
)
"""Words for a model that others learn from."""
_SETS = re.compile(
    r"(^|\.)(load_state_dict|load_weights|load_checkpoint|load|from_pretrained|deepcopy|copy_|requires_grad_|eval|"
    r"freeze\w*)$"
)
"""Calls after which a model's weights are not those it was made with, or are meant to stay."""
_OPTIMIZERS = re.compile(r"(^torch\.optim\.|\.)(Adam\w*|SGD|Lion|Adafactor|RMSprop|Adagrad|LBFGS|Muon)$")


_READINGS = 3
"""Comparisons of a weight before and after a step; that no optimizer holds it is known beside."""


@frozen
class Inner:
    """A part of the trained model that gets gradients, is in no optimizer, and is meant to stay as it is."""

    call: Call
    """Where it is called."""
    share: float
    """Of the trainable elements (0..1)."""
    parameters: int


def inner_teacher(patient: Patient, process: Process) -> Inner | None:
    """The one that the source calls a teacher, or loads: `self.big` of a module that distils."""
    source = source_of(patient)
    found = [item for item in numerics(process, "frozen") if int(item.get("steps") or 0) >= _READINGS]
    last = found[-1] if found else None
    if source is None or last is None or not last.get("count") or last.get("unheld") != last.get("count"):
        return None
    parts = {str(name).partition(".")[0] for name in last.get("parameters") or ()}
    if len(parts) != 1:
        return None
    [name] = parts
    if not (_NAMES.search(name) or any(_word(name, text) for text in _texts(source, _SETS))):
        return None
    calls = [
        call for script in source.scripts for call in script.calls if ast.unparse(call.node.func) == f"self.{name}"
    ]
    if not calls:
        return None
    return Inner(call=calls[0], share=float(last.get("share") or 0.0), parameters=int(last.get("count") or 0))


def forgotten(patient: Patient, process: Process, least: float) -> list[Record]:
    """Those that gradients reach, that are as they were made, and that nothing calls a teacher.

    Without the source nobody can tell: none, unless two optimizers hold the same parameters: one of them was
    meant for this model.
    """
    if swapped(process, least):
        return []
    return [item for item in _bystanders(process, least) if _left_out(patient, process, item)]


def teachers(patient: Patient, process: Process, least: float) -> list[Record]:
    """The others."""
    if swapped(process, least):
        return []
    return [item for item in _bystanders(process, least) if not _left_out(patient, process, item)]


def swapped(process: Process, least: float) -> list[Record]:
    """The models that get gradients and are in no optimizer, where nothing that an optimizer holds gets one.

    A teacher stands beside a student that learns; here the optimizer was made over another model than the one
    that is trained: an old copy, a target network.
    """
    made = process.of("optimizer")
    held = sum(int(item.get("parameters") or 0) for item in made)
    readings = [item for item in numerics(process, "dead") if int(item.get("steps") or 0) >= least]
    last = readings[-1] if readings else None
    if last is None or not held or int(last.get("elements") or 0) < held:
        return []
    if not set(map(str, last.get("none") or ())) >= set(map(str, last.get("parameters") or ())):
        return []
    if not any(item.get("missing") for item in made):
        return []
    newest = {(item.get("path"), item.get("line")): item for item in _bystanders(process, least)}
    return [item for item in newest.values() if item.get("reached") is True]


def missing(process: Process) -> set[str]:
    """Trainable parameters that no optimizer holds, by name (the recorder names the first 64 of each)."""
    held = [set(map(str, item.get("missing") or ())) for item in process.of("optimizer")]
    return set.intersection(*held) if held else set()


def unheld(process: Process) -> set[str]:
    """Parameters of the one model that the one optimizer does not hold, although it holds as many elements.

    It then steps other tensors than the model's. One that holds fewer was made for a part of the model. Of weights in
    half precision, it may step copies in float32 that the program writes back.
    """
    models, optimizers = process.of("model"), process.of("optimizer")
    if len(models) != 1 or len(optimizers) != 1:
        return set()
    own, whole = int(optimizers[0].get("parameters") or 0), int(models[0].get("trainable") or 0)
    halves = {"bfloat16", "float16"} >= set(models[0].get("dtypes") or {"float32"})
    return missing(process) if own >= whole > 0 and not halves else set()


def _bystanders(process: Process, least: float) -> list[Record]:
    return [
        item
        for item in newest(process, "mode")
        if item.get("kind_of") == "teacher-grad" and int(item.get("steps") or 0) >= least
    ]


def _left_out(patient: Patient, process: Process, item: Record) -> bool:
    return _instead(process, item) or _forgotten(patient, item)


def _instead(process: Process, item: Record) -> bool:
    """Whether an optimizer got another one's parameters instead of those of this model, which trains."""
    trains = item.get("reached") is True and item.get("training") is not False
    return trains and any(made.get("twin") and made.get("missing_count") for made in process.of("optimizer"))


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
    """What calls of a kind are made on, given and bound to, as text without comments."""
    return [
        ast.unparse(whole)
        for script in source.scripts
        for call in script.calls
        if (method.search(call.name) or method.fullmatch(call.method))
        and isinstance(whole := statement(script, call.node), ast.Assign | ast.AnnAssign | ast.Expr | ast.Return)
    ]


def _word(name: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None
