"""Answers the calls of an agent: one child process a call, its JSON cut to size, the whole kept for `more`."""

import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from gpudoctor.agents.child_command import POLL, ChildCall, ChildEnd, Note, run_child
from gpudoctor.agents.short_answer import (
    Document,
    estimate_answer,
    filled,
    full_finding,
    page,
    plain_answer,
    report_answer,
    text_of,
)
from gpudoctor.agents.target_environment import TargetEnvironment, target_environment
from gpudoctor.agents.tool_arguments import checked, existing_folder, plain_names
from gpudoctor.agents.tool_table import MEASURING, TOOLS
from gpudoctor.errors import DoctorError, IncompleteError, UsageError
from gpudoctor.model.external_files import load_json, read_text
from gpudoctor.model.read_limits import REPORT
from gpudoctor.recorder.folder import state_folder
from gpudoctor.trial.processes import CleanupWatchdog
from gpudoctor.trial.scratch import remove_scratch

_READING = 300.0
"""Seconds that a command may take which runs nothing of the user's."""
_AROUND = 120.0
"""Seconds beside the user's own: the start, an end that takes its time, the report."""
_ENDING = 5.0
"""Seconds to wait for a call that is being ended, before another one is refused."""
_GRACE = 10.0
"""Seconds from SIGINT to SIGTERM when a bounded run ends."""
_UNEXAMINED = 3
_CHECKS = "select ignore"
_LISTED = ("code", "name", "topic", "title", "severity")


@dataclass(slots=True, kw_only=True)
class _Kept:
    """An answer that was given."""

    whole: Mapping[str, Any]
    """The document of the command."""
    file: Path
    folder: str
    output: str = ""


@dataclass(slots=True, kw_only=True)
class _Call:
    """A call on its way."""

    tool: str
    """Its name, which is that of the command, too."""
    given: dict[str, Any]
    label: str
    note: Note
    folder: str
    target: TargetEnvironment
    recording: str = ""
    """Where a command of the user's is recorded."""

    @property
    def python(self) -> str:
        """The flag that names the target's interpreter."""
        return f"--python={self.target.interpreter.prefix}"


@dataclass(slots=True)
class Toolbox:
    """The session of one agent. `close` removes what it has kept."""

    variables: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    _place: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="gpudoctor-mcp-")))
    _answers: dict[str, _Kept] = field(default_factory=dict)
    _calls: int = 0
    _measuring: str = ""
    """Name of the call that loads the machine now."""
    _ending: bool = False
    """Whether that is being ended."""
    _watchdog: CleanupWatchdog | None = None

    def close(self) -> None:
        """The agent has gone."""
        remove_scratch(self._place)
        if self._watchdog is not None:
            self._watchdog.dismiss()

    async def call(self, name: str, given: object, note: Note) -> Document:
        """The answer to one call. Raises `DoctorError` with a sentence for the agent."""
        if name not in TOOLS:
            raise UsageError(f"there is no tool {name!r}; there are: {', '.join(TOOLS)}")
        arguments = checked(TOOLS[name]["inputSchema"], given or {}, name)
        self._calls += 1
        label = f"{name}-{self._calls}"
        if name not in MEASURING:
            return await self._answer(name, arguments, label, note)
        import anyio

        if self._measuring:
            await anyio.sleep(POLL)  # one that was cancelled just now
        with anyio.move_on_after(_ENDING):
            while self._measuring and self._ending:
                await anyio.sleep(POLL)
        if self._measuring:
            raise IncompleteError(
                f"{self._measuring} is measuring; two at once would spoil both. Wait for it, or cancel it"
            )
        self._measuring = label
        try:
            return await self._answer(name, arguments, label, note)
        finally:
            self._measuring, self._ending = "", False

    async def _answer(self, name: str, given: dict[str, Any], label: str, note: Note) -> Document:
        if name == "more":
            return self._more(given)
        if name == "apply" and (kept := self._answers.get(given["answer"])):
            given.setdefault("folder", kept.folder)
        folder = existing_folder(given.get("folder") or ".", "folder")
        for variable in given.get("environment", {}):
            if not variable or "=" in variable:
                raise UsageError(f"environment: {variable!r} is not a name of a variable")
        variables = {**self.variables, **given.get("environment", {})}
        target = target_environment(given.get("python"), folder, variables)
        call = _Call(tool=name, given=given, label=label, note=note, folder=folder, target=target)
        answered: Document = await getattr(self, f"_{name}")(call)
        return answered

    # -- one method a tool

    async def _check(self, call: _Call) -> Document:
        rest = call.given.get("script_arguments", [])
        words = [*_names(call, "targets"), call.python, *_flags(call.given, f"gpu gpus ranks {_CHECKS}")]
        return await self._examined(call, words, ["--", *rest] if rest else [])

    async def _estimate(self, call: _Call) -> Document:
        configs = _names(call, "configs")
        if not configs and "model" not in call.given:
            raise UsageError("estimate: name a model (7b, llama-3-8b, a hub id) or configs")
        flags = _flags(call.given, "model gpu method sequence:seq batch gpus fit")
        end, found = await self._written(call, [*configs, *flags])
        return estimate_answer(found, _extra(call, end), call.label, call.given["max_chars"])

    async def _run(self, call: _Call) -> Document:
        words = [f"--grace={_GRACE:g}", *_flags(call.given, f"seconds steps {_CHECKS}")]
        return await self._measured(call, words, call.given["seconds"])

    async def _verify(self, call: _Call) -> Document:
        flags = f"budget_seconds:budget remedies:remedy top against vary unsafe apply:keep {_CHECKS}"
        return await self._measured(call, _flags(call.given, flags), call.given["budget_seconds"])

    async def _apply(self, call: _Call) -> Document:
        given = call.given
        kept = self._answers.get(given["answer"])
        if kept is None and not given["answer"].endswith(".json"):
            raise UsageError(f"apply: {self._unknown(given['answer'])}")
        (source,) = [str(kept.file)] if kept else _names(call, "answer")
        end = await self._child(call, [source, *_flags(given, "remedies:remedy dry_run:diff")])
        if end.code not in (0, _UNEXAMINED) or (end.code and not (end.out or "applied" in end.errors)):
            raise UsageError(end.errors_or(f"apply ended with exit code {end.code}"))
        done = [line.removeprefix("gpudoctor: ") for line in end.errors.splitlines()]
        return filled({"written": not given["dry_run"], "done": done, "diff": end.out})  # type: ignore[no-any-return]

    async def _watch(self, call: _Call) -> Document:
        given = call.given
        if not given.get("pids"):
            end = await self._child(call, ["--find", "--json"])
            jobs = _json_of(end.out, end)
            verdict = f"{len(jobs)} training processes on this machine" if jobs else "no process trains on this machine"
            return {"verdict": verdict, "jobs": jobs}
        words = [*(str(int(pid)) for pid in given["pids"]), *_flags(given, "seconds:duration")]
        return await self._examined(call, words, expected=given["seconds"], python=False)

    async def _autopsy(self, call: _Call) -> Document:
        files = _names(call, "files")
        if not files:
            raise UsageError("autopsy: no log was named; name the job's output: slurm-4711.out")
        return await self._examined(call, [*files, *_flags(call.given, _CHECKS)], python=False)

    async def _preflight(self, call: _Call) -> Document:
        # Rank 0 of 1: inside an allocation it would wait for the other nodes.
        words = ["--quick", "--rank=0", "--world=1", call.python, *_flags(call.given, "storage")]
        return await self._examined(call, words, expected=20.0)

    async def _report(self, call: _Call) -> Document:
        recordings = _names(call, "recordings")
        if not recordings:
            raise UsageError("report: no recording was named; an answer of run names one")
        return await self._examined(call, [*recordings, *_flags(call.given, _CHECKS)], python=False)

    async def _compare(self, call: _Call) -> Document:
        pair = plain_names([call.given["before"], call.given["after"]], "compare", "recording")
        end, found = await self._written(call, pair)
        return plain_answer(found, _extra(call, end), call.label, call.given["max_chars"])

    async def _explain(self, call: _Call) -> Document:
        end = await self._child(call, [*_names(call, "code"), "--format=json"])
        if end.code:
            raise UsageError(f"explain: {end.errors_or('no such check')}")
        found = _json_of(end.out, end)
        self._keep(call, found, end.out)
        return plain_answer(found, {"answer": call.label}, call.label, call.given["max_chars"])

    async def _list(self, call: _Call) -> Document:
        given = call.given
        words = [word for text in given["search"].split() if (word := text.lstrip("-"))]
        end = await self._child(call, [*words, "--format=json"])
        # a search without a result is an answer, too
        checks = [] if words and end.code == UsageError.exit_code else _json_of(end.out, end)["checks"]
        found = [{key: item.get(key) for key in _LISTED} for item in checks]
        self._keep(call, {"checks": found}, end.out)
        return page(found, given["start"], given["max_chars"], call.label, "checks")

    def _more(self, given: Mapping[str, Any]) -> Document:
        name, most = given["answer"], given["max_chars"]
        kept = self._answers.get(name)
        if kept is None:
            raise UsageError(f"more: {self._unknown(name)}")
        if "code" in given:
            return _one_finding(kept.whole, str(given["code"]), name, most)
        part = given.get("part", "findings")
        whole = {**kept.whole, **({"output": kept.output} if kept.output else {})}
        if part == "findings" and "summary" in whole:
            # Without what the first answer has shown beside the findings.
            rest = {key: whole[key] for key in ("summary", "findings")}
            return report_answer(rest, {}, name, most, start=given["start"])
        if part not in whole:
            raise UsageError(f"more: {name} has no part {part!r}; it has: {', '.join(whole)}")
        value = whole[part]
        if isinstance(value, str):
            value = [value[start : start + most - 300] for start in range(0, len(value), most - 300)]
        if isinstance(value, list):
            return page(value, given["start"], most, name, part)
        return plain_answer(value if isinstance(value, dict) else {part: value}, {}, name, most)

    # -- what they share

    async def _child(
        self, call: _Call, words: Sequence[str], *, expected: float = 0.0, recording: str = ""
    ) -> ChildEnd:
        if self._watchdog is None:
            self._watchdog = CleanupWatchdog(self._place)
        child = ChildCall(
            words=[call.tool, *words],
            folder=call.folder,
            variables=call.target.variables,
            expected=expected or 5.0,
            limit=max(_READING, 2 * expected + _AROUND),
            recording=recording,
        )

        def ending() -> None:
            self._ending |= call.label == self._measuring

        return await run_child(child, self._place / call.label, self._watchdog, call.note, ending)

    async def _measured(self, call: _Call, words: Sequence[str], seconds: float) -> Document:
        """Run a command of the user's, recorded where `run` would have put it, so that it outlives the session."""
        command = _command(call.given, call.tool)
        home = state_folder()
        with suppress(OSError):
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
        call.recording = str(home / f"run-{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}-{call.label}")
        return await self._examined(call, [*words, f"--recording={call.recording}"], ["--", *command], expected=seconds)

    async def _examined(
        self,
        call: _Call,
        words: Sequence[str],
        after: Sequence[str] = (),
        *,
        expected: float = 0.0,
        python: bool = True,
    ) -> Document:
        """Run a command that reports, and cut its report; `python` says which interpreter it took."""
        end, report = await self._written(call, [*words, "--verbose"], after, expected=expected)
        extra = _extra(call, end)
        if python:
            extra["python"] = f"{call.target.interpreter.executable} ({call.target.why})"
        if call.recording:
            extra |= {"recording": call.recording, "output": end.out}
        return report_answer(report, extra, call.label, call.given["max_chars"])

    async def _written(
        self, call: _Call, words: Sequence[str], after: Sequence[str] = (), *, expected: float = 0.0
    ) -> tuple[ChildEnd, dict[str, Any]]:
        """Run a command that writes JSON into a file, and keep it. Raises `DoctorError` without one."""
        file = self._place / f"{call.label}.json"
        flags = ["--format=json", f"--output={file}"]
        end = await self._child(call, [*words, *flags, *after], expected=expected, recording=call.recording)
        output = end.out if call.recording else ""
        try:
            found = load_json(read_text(file, REPORT))
        except (OSError, ValueError):
            sentence = end.errors_or(f"{call.tool} ended with exit code {end.code} and wrote no report")
            raise _Refused(f"{call.tool}: {sentence}", output) from None
        self._keep(call, found, output)
        return end, found

    def _keep(self, call: _Call, whole: Mapping[str, Any], output: str) -> None:
        file = self._place / f"{call.label}.json"
        self._answers[call.label] = _Kept(whole=whole, file=file, folder=call.folder, output=output)

    def _unknown(self, name: str) -> str:
        listed = ", ".join(self._answers) or "none yet"
        return f"this session has no answer {name!r}; there are: {listed}"


class _Refused(IncompleteError):
    """A command wrote no report; `output` is what the user's program printed until then."""

    def __init__(self, text: str, output: str) -> None:
        super().__init__(text)
        self.output = output


def error_answer(error: DoctorError) -> Document:
    """What an agent is told of an error."""
    answer: Document = {"error": str(error)}
    if isinstance(error, _Refused) and error.output:
        answer["output"] = error.output
    return answer


def _extra(call: _Call, end: ChildEnd) -> Document:
    return {"answer": call.label, "exit_code": end.code}


def _names(call: _Call, argument: str) -> list[str]:
    """File names of an argument, one or a list. Raises `UsageError` for what a command would take for a flag."""
    given = call.given.get(argument, [])
    return plain_names([given] if isinstance(given, str) else given, call.tool, argument)


def _flags(given: Mapping[str, Any], names: str) -> list[str]:
    """The arguments with these names as flags, a list's items one by one; `name:flag` where they differ."""
    words = []
    for name, _, flag in (each.partition(":") for each in names.split()):
        value = given.get(name)
        if value is True:
            words.append(f"--{flag or name}")
        elif value is not None and value is not False:
            words += [f"--{flag or name}={item}" for item in (value if isinstance(value, list) else [value])]
    return words


def _command(given: Mapping[str, Any], tool: str) -> list[str]:
    """The words of a command. Raises `UsageError` for one that has none."""
    command = given["command"]
    if isinstance(command, str):
        try:
            command = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"{tool}: command cannot be split into words ({error}); give a list of words") from None
    if not command or not command[0]:
        raise UsageError(f'{tool}: command is empty; name what starts the training: ["python", "train.py"]')
    if command[0].startswith("-"):
        raise UsageError(f"{tool}: command begins with {command[0]!r}; begin with the program")
    return list(command)


def _json_of(text: str, end: ChildEnd) -> Any:
    try:
        return load_json(text)
    except ValueError:
        raise IncompleteError(end.errors_or(f"it ended with exit code {end.code} without an answer")) from None


def _one_finding(report: Mapping[str, Any], code: str, name: str, most: int) -> Document:
    found = [item for item in report.get("findings", ()) if str(item["code"]).lower() == code.lower()]
    if not found:
        codes = ", ".join(dict.fromkeys(item["code"] for item in report.get("findings", ()))) or "none"
        raise UsageError(f"more: {name} has no finding {code!r}; there are: {codes}")
    whole = [full_finding(item) for item in found]
    return page(whole, 1, most, name, "findings") if len(text_of(whole)) > most else {"findings": whole}
