"""DIST005 dataparallel."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import Run, spots
from gpudoctor.analysis.source.control_flow import callers, never_runs
from gpudoctor.analysis.source.device_tensors import Target
from gpudoctor.analysis.source.entry_points import Program, instantiated, training_programs
from gpudoctor.analysis.source.environment_assignments import assignments
from gpudoctor.analysis.source.parallelism import SHARDED
from gpudoctor.analysis.source.syntax import keyword_value
from gpudoctor.analysis.source.syntax_places import lines_at
from gpudoctor.lang import say
from gpudoctor.model import Facts, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.job_devices import VARIABLE, job_gpus
from gpudoctor.model.signs.source import Call, GuardKind, Known, Script, Source
from gpudoctor.model.unavailable import optional
from gpudoctor.model.visible_devices import entries
from gpudoctor.text import capitalised, count
from gpudoctor_checks.run_check import RunCheck

_OF_MANY = re.compile(
    r"(multi|n|num|many|len)\W?_?gpu|gpus|gpu_?(ids?|list|num|count)|parallel|devices|device_ids|\bdp\b", re.IGNORECASE
)

"""A condition that asks for several GPUs, in the words that scripts use."""
_COUNTED = re.compile(r"(?:torch\.cuda\.)?device_count\(\) > 1")
_OPTION = re.compile(r"(?:str\()?\w+\.(\w+)\)?")
"""A command-line option: `args.gpu`, `str(args.gpu)`."""
_DDP = "DistributedDataParallel"
_NAMES = ("torch.nn.DataParallel", "torch.nn.parallel.data_parallel")


class Dataparallel(RunCheck):
    """The model trains on several GPUs through DataParallel: one process, one thread per GPU.

    What it finds:
        A model wrapped in `torch.nn.DataParallel` (or `data_parallel`, or a class that extends it) in a program
        that trains.
    Why it hurts:
        One process drives every GPU under Python's global lock. On each step it copies the model to all GPUs.
        It scatters the batch from the first one and gathers the outputs there. The first GPU fills up and the
        others wait. DistributedDataParallel runs one process per GPU and sends gradients during the backward
        pass.
    How it knows:
        From the source. Not reported are a switch that is off by default and a program limited to one GPU
        (`CUDA_VISIBLE_DEVICES`). Neither is one that also has DistributedDataParallel or FSDP (DataParallel is
        its other branch). A recorded run on the CPU is not reported either. It is a note on a machine with one
        GPU. It is also a note behind a setting that the source does not decide (`if config.multi_gpu`). It
        is one too if such a setting chooses the program's GPUs (`CUDA_VISIBLE_DEVICES = args.gpu`).
    False alarms:
        A machine with one GPU loses nothing; a quick experiment on two GPUs may not be worth the change.
        gpudoctor ignores a wrapper with one device in `device_ids`, or of a class that the program never
        creates.
    Remedies:
        Use DistributedDataParallel, started by torchrun with one process per GPU.
    References:
        - https://pytorch.org/docs/stable/generated/torch.nn.DataParallel.html
        - https://pytorch.org/tutorials/intermediate/ddp_tutorial.html
    """

    on_gpu = True
    code = "DIST005"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    thresholds = (
        Threshold("gpus", 2, "{gpus}", "torch: with one device DataParallel calls the module itself",
                  "With fewer GPUs the finding is a note."),
    )  # fmt: skip

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        if not run.lead.process.of("model"):
            yield from suspected
            return
        model, gpus = of_run.wrapped(run.lead.process, "DataParallel"), of_run.gpus_here(run.recording)
        if model is None or gpus < self.limit("gpus"):
            return
        yield confirmed(
            self,
            suspected,
            say(
                "{model} is trained by DataParallel. One process drives {gpus} GPUs and copies the "
                "model to all of them in every step.",
                model=model.get("name"),
                gpus=gpus,
            ),
            evidence=(*spots(patient, of_run.place_of(model)), run.measured("gpus", gpus, "{gpus}")),
            severity=Severity.WARNING,
            detail=Facts(gpus=None, script=None),
        )

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        seen: set[tuple[str, int]] = set()
        source, cards = patient.source, optional(lambda: job_gpus(patient))
        gpus = len(cards) if cards is not None else None
        for program in training_programs(source):
            better = program.called & SHARDED or any(name.endswith(_DDP) for name in program.called)
            if program.target is Target.CPU or better:
                continue
            left = _left(program)
            if left is not None and 0 <= left <= 1:
                continue
            own = {
                name for script in program.scripts for name, info in script.classes.items() if _NAMES[0] in info.bases
            }
            calls = [
                call
                for script, call in program.calls
                if (call.name in _NAMES or call.name.rpartition(".")[2] in own)
                and not _one_device(program, call)
                and not _unused(program, script, call)
                and not never_runs(source, call)
                and (script.path, call.span.line) not in seen
            ]
            if not calls:
                continue
            chosen = [_chosen(program, source, call) for call in calls]
            spans = tuple(dict.fromkeys(call.span for call in calls))
            seen |= {(span.path, span.line) for span in spans}
            on_import = all(call.span.path != program.entry.path and not call.function for call in calls)
            few = gpus is not None and gpus < self.limit("gpus")
            here = say("; this machine has {gpus}", gpus=count(gpus, "GPU")) if gpus is not None else ""
            yield self.finding(
                say(
                    "{where}: the model is in DataParallel{only}. One process copies it to all GPUs each step{here}.",
                    where=capitalised(lines_at(spans)),
                    only=say(" if `{chosen}`", chosen=chosen[0]) if all(chosen) else "",
                    here=here,
                ),
                evidence=(*spans[:8], next(program.loops)[1].span),
                severity=Severity.NOTE if few or on_import or all(chosen) or (left or 0) < 0 else Severity.WARNING,
                detail=Facts(gpus=gpus or 0, script=program.entry.path),
            )


def _one_device(program: Program, call: Call) -> bool:
    """Whether the call runs only behind a switch that is off, or is given one device: torch calls the module itself."""
    if any(guard.never for guard in call.guards) or (call.guards and not program.starts):
        return True  # whoever starts the training sets the switch
    given = keyword_value(call.node, "device_ids") or next(iter(call.node.args[1:]), None)
    if isinstance(given, ast.List | ast.Tuple) and len(given.elts) == 1:
        return not isinstance(given.elts[0], ast.Starred)
    known = call.argument("device_ids", 1)
    value = known.value if isinstance(known, Known) else None
    return isinstance(value, int) or (isinstance(value, tuple) and len(value) == 1)


def _unused(program: Program, script: Script, call: Call) -> bool:
    """Whether a class makes the wrapper that nothing in the program makes."""
    owner = call.function.partition(".")[0]
    return owner in script.classes and not instantiated(program, owner)


def _left(program: Program) -> int | None:
    """The GPUs that a program leaves itself: `os.environ["CUDA_VISIBLE_DEVICES"] = "0"`.

    None where it does not choose, -1 where the source does not tell how many.
    """
    sure = [place for place in assignments(program.source) if place.name == VARIABLE and not place.conditional]
    if not sure:
        return None
    value, option = sure[-1].value, _OPTION.fullmatch(ast.unparse(sure[-1].node))
    given = [script.arguments[option[1]] for script in program.scripts if option and option[1] in script.arguments]
    if value is None and len(given) == 1 and isinstance(given[0], Known) and isinstance(given[0].value, str | int):
        value = str(given[0].value)
    return entries(value) if value is not None else -1


def _chosen(program: Program, source: Source, call: Call, depth: int = 3) -> str:
    """The condition for several GPUs that a call runs behind and that the source leaves open; "" for none."""
    script = next((item for item in program.scripts if item.path == call.span.path), None)
    for guard in call.guards if script is not None else ():
        undecided = guard.kind is GuardKind.OTHER or not isinstance(guard.value, Known)
        named = _OF_MANY.search(_COUNTED.sub("", guard.text))
        if script is not None and undecided and named and not _counts_cards(script, guard.text):
            return guard.text
    if not call.function or depth == 0:
        return ""
    above = [_chosen(program, source, other, depth - 1) for _, other in callers(source, call.span.path, call.function)]
    return above[0] if above and all(above) else ""


def _counts_cards(script: Script, text: str) -> bool:
    """Whether a condition asks for a name that holds how many GPUs the machine has."""
    names = re.findall(r"[A-Za-z_][\w.]*", text)
    return any(re.search(rf"(?<![\w.]){re.escape(name)} *=[^\n=]*device_count", script.text) for name in names)
