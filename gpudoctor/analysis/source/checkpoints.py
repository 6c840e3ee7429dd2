"""Checkpoints as source tells them: what saves, where in the run, and whether a run can be resumed from it."""

import re
from collections.abc import Iterator
from enum import Enum

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.entry_points import Program, training_programs
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.job import Job
from gpudoctor.model.signs.source import Call, Known, Loop, LoopRole, Script, Source

_SAVES = re.compile(  # for `match` with the name of a method
    r"(save$|save_\w*?(model|state|pretrained|checkpoint|ckpt|weight|adapter|lora|network|file|snapshot)"
    r"|\w*?(save|write|dump|store|export)_?(checkpoint|ckpt|model|state|weights|snapshot)"
    r"|(checkpoint|ckpt|snapshot)\w*?(save|write|dump)|checkpoint$|save_to_\w|_save|push_to_hub$)",
    re.IGNORECASE,
)
_NO_SAVES = re.compile(  # for `match` with the name of a method
    r"(^|\.)(np|numpy|cv2|image|img|fig|figure|plt|pyplot|tokenizer|processor|sns|imageio|writer|PIL|torchaudio"
    r"|grid|gif|wav|config|hparams|torchvision)\w{0,60}(\.|$)",
    re.IGNORECASE,
)
_KEEPERS = re.compile(r"(Checkpoint\w{0,60}|Saver|CheckPointer|SaveModel\w{0,60})$")

SAVING_ENGINES = ("transformers.", "trl.", "lightning.", "sentence_transformers.", "unsloth.", "setfit.")


class Saving(Enum):
    """What a program keeps of a run."""

    NOTHING = "nothing"
    AT_THE_END = "at the end"
    WHILE_IT_TRAINS = "while it trains"


@frozen(eq=False)
class Saved:
    """How a program saves."""

    how: Saving
    calls: tuple[tuple[Script, Call], ...] = ()
    """What saves; for an engine that was told not to, the call that says so."""


def saving(program: Program) -> Saved:
    """How a program saves its progress, as far as its source tells."""
    loops = [loop for _, loop in program.loops]
    engines = [loop for loop in loops if loop.engine is not None]
    if engines:
        return _engine_saving(program, engines)
    calls = tuple((script, call) for script in program.scripts for call in saves_of(script))
    if any(_KEEPERS.search(call.name) and "torch.utils" not in call.name for _, call in program.calls):
        return Saved(how=Saving.WHILE_IT_TRAINS, calls=calls)
    if not calls:
        return Saved(how=Saving.NOTHING)
    if all(_after_training(program, script, call) for script, call in calls):
        return Saved(how=Saving.AT_THE_END, calls=calls)
    return Saved(how=Saving.WHILE_IT_TRAINS, calls=calls)


def _engine_saving(program: Program, engines: list[Loop]) -> Saved:
    """Engines save by themselves unless they are told not to."""
    told = [(script, call) for script in program.scripts for call in _told_off(script)]
    saves = any(
        "model" in call.method or call.method == "save_checkpoint"
        for script in program.scripts
        for call in saves_of(script)
    )
    if not told or not all((loop.engine or "").startswith(SAVING_ENGINES) for loop in engines):
        return Saved(how=Saving.WHILE_IT_TRAINS)
    return Saved(how=Saving.AT_THE_END if saves else Saving.NOTHING, calls=tuple(told))


@once
def _told_off(script: Script) -> tuple[Call, ...]:
    found = []
    for call in script.calls:
        strategy, enabled = call.keywords.get("save_strategy"), call.keywords.get("enable_checkpointing")
        off = isinstance(strategy, Known) and str(strategy.value).lower() == "no"
        if off or (isinstance(enabled, Known) and enabled.value is False):
            found.append(call)
    return tuple(found)


@once
def saves_of(script: Script) -> tuple[Call, ...]:
    """The calls of a script that save progress."""
    return tuple(call for call in script.calls if _is_save(call))


def _is_save(call: Call) -> bool:
    if call.name in {"torch.save", "safetensors.torch.save_file"}:
        return True
    if not _SAVES.match(call.method) or _NO_SAVES.search(call.receiver) or call.name.startswith(("numpy.", "PIL.")):
        return call.name.startswith(("pickle.dump", "joblib.dump"))
    return True


def _after_training(program: Program, script: Script, call: Call) -> bool:
    """Whether a save stands behind the whole training in the same function, which no epoch runs again."""
    loops = [
        loop
        for loop in script.loops
        if loop.function == call.function and not loop.parents and loop.role in {LoopRole.TRAINING, LoopRole.EPOCHS}
    ]
    behind = bool(loops) and all(call.span.line > loop.end_line for loop in loops)
    return behind and not any(
        event.node is call.node
        for other in program.scripts
        for loop in other.loops
        if loop.role is LoopRole.EPOCHS and loop not in loops
        for event in loop.events
    )


def launched(source: Source, job: Job | None) -> Iterator[Program]:
    """The programs that a job's script launches; every training program where it names none of them."""
    programs = training_programs(source)
    names = {(launch.script or "").rsplit("/", 1)[-1] for launch in (job.launches if job is not None else ())} - {""}
    matched = [one for one in programs if one.entry.path.rsplit("/", 1)[-1] in names]
    yield from matched or (programs if len(programs) == 1 or not names else ())
