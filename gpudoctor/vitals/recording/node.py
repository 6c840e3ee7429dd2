"""One recording folder: manifest, processes, machine and end of one node; what the fault handler wrote."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpudoctor.lang import say
from gpudoctor.model.external_files import load_json
from gpudoctor.model.read_limits import EARLY_DEATH, FAULT, GDR, GPUS, ReadLimit
from gpudoctor.model.read_limits import MANIFEST as MANIFEST_LIMIT
from gpudoctor.model.signs.recording import EARLY_DEATH_FILE, Process, Record, RunEnd, Table
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.vitals.recording.archive import END, MACHINE, MANIFEST, SCRIPTS, RecordingFolder
from gpudoctor.vitals.recording.fields import judged, left_out
from gpudoctor.vitals.recording.gdr_file import Contents, ForeignFile, Reported, as_process, read_frames

# What the interpreter's fault handler wrote when a fatal signal came: the signal, the stack of the thread.

_FATAL = re.compile(r"^Fatal Python error: (.+)$", re.MULTILINE)
_SIGNALS = {
    "Segmentation fault": "SIGSEGV", "Aborted": "SIGABRT", "Bus error": "SIGBUS", "Floating point "
        "exception": "SIGFPE",
    "Floating-point exception": "SIGFPE", "Illegal instruction": "SIGILL",
}  # fmt: skip
_FRAME = re.compile(r'^  File "(.*)", line ([0-9]{1,9}) in (.+)$', re.MULTILINE)
_DUMP = re.compile(r"^(?:Stack|Current thread|Thread)\b.*\(most recent call first\):", re.MULTILINE)
"""`Stack` where only one thread is dumped; Python 3.14 adds the C stack, which has no lines of files."""


def read_fault(text: str) -> Mapping[str, Any] | None:
    """Fields of a `signal` record: `signal` ("" where the handler does not say), `stack` outermost first.

    Of several dumps (a signal that is handed on, one that comes again) the last counts. None without a stack.
    """
    stacks = [found for dump in _DUMP.split(text)[1:] if (found := _FRAME.findall(dump))]
    frames = stacks[-1] if stacks else []
    fatal = _FATAL.findall(text)
    if not frames and not fatal:
        return None
    stack = [[path, int(line), function] for path, line, function in reversed(frames)]
    return {"signal": _SIGNALS.get(fatal[-1].strip(), "") if fatal else "", "stack": stack}


FORMAT = 1
_SCHEMA = re.compile(r"gpudoctor\.recording/([0-9]{1,9})")
_FAULT = re.compile(r"fault-(x|[0-9]{1,9})-([0-9]{1,9})\.txt")
_RANK = re.compile(r"rank-(x|[0-9]{1,9})-([0-9]{1,9})\.gdr")
_WORKER = re.compile(r"worker-(x|[0-9]{1,9})-([0-9]{1,9})-([0-9]{1,9})\.gdr")


_GPU = re.compile(r"gpu([0-9]+)_")


@dataclass(slots=True, kw_only=True)
class RecordedNode:
    """What one folder holds, before ranks are put in order."""

    place: RecordingFolder
    manifest: Mapping[str, Any]
    reported: list[Reported] = field(default_factory=list)
    workers: list[tuple[int, Process]] = field(default_factory=list)
    """Loader workers with their parents' pids."""
    machine: Table = field(default_factory=lambda: Table(columns={}))
    facts: Mapping[str, Any] = field(default_factory=dict)
    end: RunEnd | None = None
    early_deaths: dict[str, bytes] = field(default_factory=dict)
    """By path: the tracebacks of processes that died before they imported torch."""
    scripts: Mapping[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def text(self, name: str) -> str:
        """A text of the manifest, "" where it has none."""
        return str(self.manifest.get(name) or "")

    def read(self, name: str, limit: ReadLimit) -> bytes | None:
        """A file; one that cannot be read is a problem."""
        try:
            return self.place.read(name, limit)
        except OSError as error:
            reason = error.strerror or error
            self.problems.append(
                say("{name}: {file} cannot be read: {reason}", name=self.place.name, file=name, reason=reason)
            )
            return None


def read_node(place: RecordingFolder) -> RecordedNode:
    """Read all files of a folder. Raises `Unavailable` when it was written in a format of the future."""
    problems: list[str] = []
    manifest = _object(place, MANIFEST, problems)
    schema = _SCHEMA.fullmatch(manifest.get("schema") or "")
    if schema and int(schema[1]) > FORMAT:
        raise Unavailable(
            "{name}: written by a newer gpudoctor (format {schema}); upgrade this one",
            name=place.name,
            schema=schema[1],
        )
    node = RecordedNode(place=place, manifest=manifest, problems=problems)
    names = place.names()
    if END in names:
        end = _object(place, END, problems)
        node.end = _end(end)
        problems += [say("{name}: {sentence}", name=place.name, sentence=sentence) for sentence in _lost(end)]
    if SCRIPTS in names:
        node.scripts = _object(place, SCRIPTS, problems).get("scripts") or {}
    for name in names:
        if name.endswith(".gdr"):
            _read_file(node, name)
    problems += [sentence for item in node.reported for sentence in _missing(node, item)]
    for name in names:
        fault = _FAULT.fullmatch(name)
        if fault is not None:
            _read_fault(node, name, int(fault[2]))
    for name in _outermost(names):
        data = node.read(name, EARLY_DEATH)
        if data is not None:
            node.early_deaths[place.shown(name)] = data
    return node


def _outermost(names: Sequence[str]) -> list[str]:
    """The tracebacks of early deaths among these files.

    That of a child is left out where its parent died likewise: the parent met the child's death and went on.
    """
    found = {match[3]: (match[2], name) for name in names if (match := EARLY_DEATH_FILE.fullmatch(name))}
    return [name for parent, name in found.values() if parent not in found]


def _missing(node: RecordedNode, item: Reported) -> Iterator[str]:
    """What the recording of a process lacks by its own words, or by their absence."""
    process = item.process
    who = (
        say("{name}: rank {rank}", name=node.place.name, rank=process.rank)
        if item.ranked
        else say("{name}: pid {pid}", name=node.place.name, pid=process.pid)
    )
    for record in process.of("lost"):
        hook, error = record.get("hook"), record.get("error")
        then = say("was disabled; its data is missing from that point")
        yield say(
            "{who}: gpudoctor's `{hook}` hook failed and {then} ({error})", who=who, hook=hook, then=then, error=error
        )
    ended = node.end is not None and node.end.exit_code == 0
    if ended and not process.clean and not process.lost_bytes and len(process.steps):
        yield (
            say(
                "{who}: its file is incomplete although the command ended well: the disk was full, or "
                "the process called os._exit",
                who=who,
            )
        )


def _read_fault(node: RecordedNode, name: str, pid: int) -> None:
    """The stack of a fatal signal, as a record of the process that died of it."""
    fault = read_fault((node.read(name, FAULT) or b"").decode("utf-8", "replace"))
    for index, item in enumerate(node.reported):
        process = item.process
        if process.pid == pid and fault is not None:
            ends = process.steps.column("t")
            at = max([record.t for record in process.records] + [ends[-1] if len(ends) else 0.0])
            told = replace(process, records=(*process.records, Record(type="signal", t=at, fields=fault)))
            node.reported[index] = replace(item, process=told)


def _read_file(node: RecordedNode, name: str) -> None:
    data = node.read(name, GDR)
    if data is None:
        return
    try:
        contents = read_frames(data)
    except ForeignFile:
        node.problems.append(
            say("{name}: {file} is not a file of gpudoctor's frames; it was ignored", name=node.place.name, file=name)
        )
        return
    if contents.lost:
        node.problems.append(
            say(
                "{name}: the last {lost} bytes of {file} are cut short or damaged; gpudoctor read the data before them",
                name=node.place.name,
                lost=contents.lost,
                file=name,
            )
        )
    if contents.bad:
        node.problems.append(
            say("{name}: parts of {file} are not valid; they were ignored", name=node.place.name, file=name)
        )
    host = node.text("node")
    if name == MACHINE:
        node.machine = _machine(contents)
        node.facts = next((item.fields for item in contents.records if item.type == "facts"), {})
    elif match := _RANK.fullmatch(name):
        node.reported.append(as_process(contents, (_number(match[1]), int(match[2])), host))
    elif match := _WORKER.fullmatch(name):
        reported = as_process(contents, (_number(match[1]), int(match[3])), host)
        node.workers.append((int(match[2]), reported.process))
    if contents.wrong:
        node.problems.append(
            say("{name}: {file}: {left_out}", name=node.place.name, file=name, left_out=left_out(contents.wrong))
        )


def _machine(contents: Contents) -> Table:
    """The samples of the machine; a GPU with a number that no machine has is left out."""
    table = contents.table("machine")
    columns = {}
    for name, values in table.columns.items():
        gpu = _GPU.match(name)
        if gpu is not None and (len(gpu[1]) > 9 or int(gpu[1]) >= GPUS.most):
            contents.wrong[f"machine.{name[:20]}"] += 1
        else:
            columns[name] = values
    return Table(columns=columns)


def _number(word: str) -> int | None:
    return None if word == "x" else int(word)


def _object(place: RecordingFolder, name: str, problems: list[str]) -> dict[str, Any]:
    """A JSON file of the folder; what is missing or broken is an empty object and a problem."""
    try:
        value = load_json(place.read(name, MANIFEST_LIMIT).decode("utf-8-sig"))
    except (OSError, KeyError):
        problems.append(say("{name}: {file} is missing or cannot be read", name=place.name, file=name))
        return {}
    except ValueError:
        value = None
    if not isinstance(value, dict):
        problems.append(say("{name}: {file} is not whole JSON", name=place.name, file=name))
        return {}
    wrong: Counter[str] = Counter()
    found = judged(name, value, wrong)
    if isinstance(found.get("settings"), dict):
        found["settings"] = judged("settings", found["settings"], wrong)
    if wrong:
        problems.append(say("{name}: {file}: {left_out}", name=place.name, file=name, left_out=left_out(wrong)))
    return found


def _lost(end: Mapping[str, Any]) -> Iterator[str]:
    """What the recorder says that it could not do."""
    if lost := end.get("lost_bytes"):
        yield say(
            "{lost} bytes of the machine's samples could not be written; check whether the disk was full", lost=lost
        )
    yield from end.get("problems") or ()


def _end(value: Mapping[str, Any]) -> RunEnd | None:
    if not value:
        return None
    known: dict[str, Any] = {name: value.get(name) for name in ("exit_code", "signal", "seconds", "stopped_by")}
    return RunEnd(**known, oom_kills=value.get("oom_kills") or 0, kernel=tuple(value.get("kernel") or ()))
