"""`gpudoctor THING`: what a named thing is, and the command that examines it."""

import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpudoctor.errors import UsageError
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.records import frozen

CHECK, RUN, WATCH = "check", "run", "watch"
REPORT, AUTOPSY, EXPLAIN = "report", "autopsy", "explain"
_NSIGHT = (".nsys-rep", ".qdrep")


@frozen
class NamedThing:
    """Something that the user named."""

    name: str
    what: str
    """With its article: `a log`."""
    read_by: tuple[str, ...]
    """The commands that examine it, the best one first."""


def meant_command(words: Sequence[str], commands: Iterable[str]) -> list[str]:
    """The command line that is meant by words that begin with none of the commands. Raises `UsageError`.

    What is read and why is said on standard error, so that the next time the command itself is typed.
    """
    # The words before the first flag.
    at = next((place for place, word in enumerate(words) if word.startswith("-") and word != "-"), len(words))
    names = list(words[:at])
    flags = list(words[len(names) :])
    name = names[0]
    if not (name == "-" or os.path.lexists(name) or _is_process(name) or _recording(name) != name):
        _refuse_words(words, commands)
    things = [recognise(name) for name in names]
    command = _common(things)
    meant = [command, *names, *flags]
    if not {"-q", "--quiet"} & set(flags):
        first = things[0]
        what = (
            say("{name} is {what}", name=first.name, what=first.what)
            if len(things) == 1
            else say("{things} things", things=len(things))
        )
        sys.stderr.write(say("gpudoctor: {what}: gpudoctor {meant}\n", what=what, meant=shlex.join(meant)))
    return meant


def refuse_elsewhere(names: Sequence[str]) -> None:
    """Name the command for a process that `check` was given. Raises `UsageError`."""
    for name in names:
        if not os.path.lexists(name) and _is_process(name):
            what, typed = say("a running process"), _typed(WATCH, name)
            raise UsageError("{name}: {what}; examine it with `{typed}`", name=name, what=what, typed=typed)


def _is_process(name: str) -> bool:
    from gpudoctor.vitals.process import procfs

    return name.isascii() and name.isdigit() and procfs.usage(int(name)) is not None


def _recording(name: str) -> str:
    """The recording of the state folder of this name, else the name."""
    if not name.startswith("run-"):
        return name
    from gpudoctor.recorder.kept_recordings import recording_path

    return recording_path(name)


def recognise(name: str) -> NamedThing:
    """What a name means. Raises `UsageError` for what is not there, and for what nothing examines."""
    if name == "-":
        return NamedThing(name=name, what=say("standard input"), read_by=(AUTOPSY,))
    if not os.path.lexists(name):
        if _is_process(name):
            return NamedThing(name=name, what=say("a running process"), read_by=(WATCH,))
        if _recording(name) != name:
            return NamedThing(name=name, what="a recording", read_by=(REPORT,))
        if name.isdigit():
            raise UsageError(
                "{name}: there is no such file and no such process; what trains here: gpudoctor watch --find", name=name
            )
        from gpudoctor.vitals.targets import near_name

        raise UsageError("{name}: no such file or folder{near_name}", name=name, near_name=near_name(Path(name)))
    what, read_by = _of_folder(Path(name)) if os.path.isdir(name) else _of_file(Path(name))
    return NamedThing(name=name, what=what, read_by=read_by)


def _of_folder(folder: Path) -> tuple[str, tuple[str, ...]]:
    from gpudoctor.vitals.recording.archive import MANIFEST, SUFFIX

    try:
        names = os.listdir(folder)
    except OSError as error:
        raise UsageError(
            "{folder}: this folder cannot be read: {reason}", folder=folder, reason=error.strerror or error
        ) from None
    if MANIFEST in names or any(item.endswith(SUFFIX) for item in names):
        return "a recording", (REPORT,)
    from gpudoctor.vitals.targets import sort_targets

    try:
        sort_targets([str(folder)])
    except UsageError as error:
        from gpudoctor.vitals.build_log_patient import sort_left_behind

        try:
            sort_left_behind([str(folder)])
        except UsageError:
            raise UsageError("{error}; no log and no recording either", error=error) from None
        return say("a folder of logs"), (AUTOPSY,)
    return say("a folder of scripts and configs"), (CHECK,)


def _of_file(path: Path) -> tuple[str, tuple[str, ...]]:
    from gpudoctor.vitals.file_kinds import FileKind, kind_of

    if path.name.removesuffix(".gz").endswith(_NSIGHT):
        return say("a report of Nsight Systems"), (REPORT,)
    try:
        kind = kind_of(path)
    except OSError as error:
        raise UsageError("{path}: cannot be read: {reason}", path=path, reason=error.strerror or error) from None
    if kind is FileKind.BINARY:
        raise UsageError(
            "{path}: a binary file of no kind that gpudoctor reads; name a script, a config, a log, "
            "a recording or a process id",
            path=path,
        )
    kinds = {
        FileKind.SCRIPT: (say("a notebook" if path.suffix == ".ipynb" else "a script"), (CHECK, AUTOPSY)),
        FileKind.JOB: (say("a job script"), (CHECK,)),
        FileKind.CONFIG: (say("a config"), (CHECK, AUTOPSY)),
        FileKind.FLIGHT: (say("a dump of the flight recorder"), (AUTOPSY, CHECK)),
        FileKind.SCHEDULER: (say("a record of the scheduler"), (AUTOPSY, CHECK)),
        FileKind.KERNEL_LOG: (say("a kernel log"), (REPORT, AUTOPSY, CHECK)),
    }
    return kinds.get(kind, (say("a log"), (AUTOPSY, CHECK)))


def _common(things: Sequence[NamedThing]) -> str:
    """The command that examines all of them. Raises `UsageError` where none does."""
    shared = [name for name in things[0].read_by if all(name in other.read_by for other in things)]
    if not shared:
        ways = []
        for thing in things:
            typed = _typed(thing.read_by[0], thing.name)
            ways.append(say("{name} is {what}: `{typed}`", name=thing.name, what=thing.what, typed=typed))
        raise UsageError("no command examines these together: {ways}", ways=concatenated("; ", ways))
    if AUTOPSY in shared and any(thing.read_by[0] == AUTOPSY for thing in things):
        return AUTOPSY
    return shared[0]


def _typed(command: str, *names: str) -> str:
    return f"gpudoctor {command} {shlex.join(names)}"


def _refuse_words(words: Sequence[str], commands: Iterable[str]) -> None:
    """Say what to type to somebody whose first words name nothing that is there."""
    word = words[0]
    if sentence := of_command(words):
        raise UsageError("gpudoctor runs nothing without `run`; {sentence}", sentence=sentence)
    from difflib import get_close_matches

    if near := get_close_matches(word.lower(), list(commands), n=2, cutoff=0.6):
        also = " or ".join(f"`{shlex.join(('gpudoctor', name, *words[1:]))}`" for name in near)
        raise UsageError(
            "{word!r} is not a command; did you mean {also}? (all of them: gpudoctor --help)", word=word, also=also
        )
    if not (os.sep in word or "." in word) and not word.isdigit():
        raise UsageError(
            "{word!r} is not a command, a file or a process; search the manual: `{typed}` (all "
            "commands: gpudoctor --help)",
            word=word,
            typed=_typed(EXPLAIN, word),
        )


# What somebody meant who gave `gpudoctor check` a command in place of files.


def of_command(words: Sequence[str]) -> str:
    """What to type with a command that starts a script, as a clause; "" where the words are none."""
    from gpudoctor.vitals.job.launch import find_launch

    if not words or os.path.exists(words[0]) or words[0].endswith((".py", ".sh", ".bash", ".sbatch")):
        return ""
    found = find_launch(words)
    if not found or not (found.script or found.shell_script or found.module):
        return ""
    run = shlex.join(("gpudoctor", RUN, "--", *words))
    script = found.script or found.shell_script
    if script is None:
        return say("run the command: `{run}`", run=run)
    check = shlex.join(("gpudoctor", CHECK, script, *(("--", *found.arguments) if found.arguments else ())))
    return say("examine the script: `{check}`, or run the command: `{run}`", check=check, run=run)


def own_arguments(words: Sequence[str]) -> str:
    """What to type with a script whose arguments stand beside it, as a sentence; "" where no script is named."""
    at = next((place for place, word in enumerate(words) if word.endswith(".py")), len(words))
    if not words[at + 1 :]:
        return ""
    check = shlex.join(("gpudoctor", CHECK, words[at], "--", *words[at + 1 :]))
    return say("put the arguments of {script} after --: `{check}`", script=words[at], check=check)
