"""Whether two recordings are of one job: what differs between them beside their speed."""

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from gpudoctor.analysis.run.job_facts import main_model, torch_fact
from gpudoctor.analysis.run.steady_run import run_of
from gpudoctor.model.signs.recording import Process, Recording
from gpudoctor.text import count, cut

_WORDS = 6
"""Arguments of a command that are shown."""
_LONG = 60
"""Characters of them."""
_MARKERS = {
    "optimizer": "a step of the optimizer",
    "backward": "a backward pass",
    "loader": "a batch",
    "gradients": "a call for gradients",
}


def other_job(before: Recording, after: Recording) -> tuple[str, ...]:
    """What makes them two jobs, a clause each: another script, model, number of ranks, another kind of step."""
    first, second = _lead(before), _lead(after)
    pairs = [("scripts", _script(before.command), _script(after.command))]
    if first is not None and second is not None:
        pairs.append(("models", _model(first), _model(second)))
        pairs.append(("numbers of ranks", count(len(before.ranks), "rank"), count(len(after.ranks), "rank")))
        pairs.append(("kinds of steps", _marker(first), _marker(second)))
    return tuple(_differ(*pair) for pair in pairs if all(pair) and pair[1] != pair[2])


def other_setting(before: Recording, after: Recording) -> tuple[str, ...]:
    """What else differs, a clause each: arguments of the command, device, versions, machine."""
    first, second = _lead(before), _lead(after)
    pairs = [("machines", before.node, after.node)]
    if first is not None and second is not None:
        pairs += [
            ("devices", _device(first), _device(second)),
            ("versions of torch", _text(first, "version"), _text(second, "version")),
            ("threads of torch", _text(first, "threads"), _text(second, "threads")),
        ]
    found = [_differ(*pair) for pair in pairs if all(pair) and pair[1] != pair[2]]
    if _script(before.command) == _script(after.command):
        found += _arguments(before.command, after.command)
    return tuple(found)


def _differ(what: str, before: str, after: str) -> str:
    return f"the {what} differ ({before}, then {after})"


def _lead(recording: Recording) -> Process | None:
    run = run_of(recording)
    return run.lead.process if run is not None else None


def _script(command: Sequence[str]) -> str:
    """The name of the script or module; "" where the command line names none."""
    for place, word in enumerate(command):
        if word.endswith(".py"):
            return PurePath(word).name
        if word == "-m" and place + 1 < len(command) and not command[place + 1].startswith("torch.distributed"):
            return f"-m {command[place + 1]}"
    return ""


def _model(process: Process) -> str:
    found = main_model(process)
    if found is None or not found.get("parameters"):
        return ""
    return f"{found.get('name') or 'a model'} of {found.get('parameters'):,} parameters"


def _marker(process: Process) -> str:
    loop = process.last("loop")
    return _MARKERS.get(str(loop.get("marker")), "") if loop is not None else ""


def _device(process: Process) -> str:
    """The card's name, or where the model stood."""
    model = main_model(process)
    stood = str(model.get("device") or "").partition(":")[0] if model is not None else ""
    return _text(process, "device") if stood not in ("", "cpu") and _text(process, "device") else stood


def _text(process: Process, name: str) -> str:
    value = torch_fact(process, name)
    return "" if value is None else str(value)


def _arguments(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """The words that only one of two command lines has."""
    only = [[word for word in one if word not in other] for one, other in ((before, after), (after, before))]
    if any(only):
        yield _differ("arguments", *(_short(words) for words in only))


def _short(words: Sequence[str]) -> str:
    text = " ".join(words[:_WORDS]) or "none"
    return cut(text if len(words) <= _WORDS else f"{text} ...", _LONG)
