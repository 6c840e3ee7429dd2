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

from gpudoctor.agents import next_calls
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
from gpudoctor.agents.tool_table import BY_NAME, AgentTool
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
"""Seconds to wait for a call that measures, before another one is refused."""
_GRACE = 10.0
"""Seconds from SIGINT to SIGTERM when a bounded run ends."""
_FORMATS = {".html": "html", ".htm": "html", ".md": "markdown", ".sarif": "sarif", ".xml": "junit", ".json": "json"}
_UNEXAMINED = 3
_LISTED = ("code", "name", "topic", "title", "severity")


@dataclass(slots=True, kw_only=True)
class _Kept:
    """An answer that was given."""

    whole: Mapping[str, Any]
    """The document of the command."""
    file: Path
    arguments: Mapping[str, Any]
    folder: str
    output: str = ""


@dataclass(slots=True)
class Toolbox:
    """The session of one agent. `close` removes what it has kept."""

    variables: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    _place: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="gpudoctor-mcp-")))
    _answers: dict[str, _Kept] = field(default_factory=dict)
    _calls: int = 0
    _measuring: str = ""
    """Name of the call that loads the machine now."""
    _watchdog: CleanupWatchdog | None = None

    def close(self) -> None:
        """The agent has gone."""
        remove_scratch(self._place)
        if self._watchdog is not None:
            self._watchdog.dismiss()

    async def call(self, name: str, given: object, note: Note) -> Document:
        """The answer to one call. Raises `DoctorError` with a sentence for the agent."""
        tool = BY_NAME.get(name)
        if tool is None:
            raise UsageError(f"there is no tool {name!r}; there are: {', '.join(BY_NAME)}")
        arguments = checked(tool.schema, given or {}, name)
        self._calls += 1
        label = f"{name}-{self._calls}"
        if not tool.measures:
            return await self._answer(tool, arguments, label, note)
        await self._free()
        if self._measuring:
            raise IncompleteError(
                f"{self._measuring} is measuring; two at once would spoil both. Wait for it, or cancel it"
            )
        self._measuring = label
        try:
            return await self._answer(tool, arguments, label, note)
        finally:
            self._measuring = ""

    async def _free(self) -> None:
        """Wait a moment for the call that measures: one that was cancelled is being ended."""
        import anyio

        with anyio.move_on_after(_ENDING):
            while self._measuring:
                await anyio.sleep(POLL)

    async def _answer(self, tool: AgentTool, arguments: dict[str, Any], label: str, note: Note) -> Document:
        method = {"report": "_report_again"}.get(tool.name, f"_{tool.name}")
        answered: Document = await getattr(self, method)(arguments, label, note)
        return answered

    # -- one method a tool

    async def _check(self, given: dict[str, Any], label: str, note: Note) -> Document:
        targets = plain_names(given.get("targets", []), "check", "targets")
        target = self._target(given)
        words = ["check", *targets, f"--python={target.interpreter.prefix}", *_checks(given)]
        words += [f"--{flag}={given[flag]}" for flag in ("gpu", "gpus", "ranks") if flag in given]
        rest = given.get("script_arguments", [])
        end, report = await self._written(words, label, given, note, target, after=["--", *rest] if rest else [])
        return self._report(label, given, end, report, next_calls.after_check(given, report), target)

    async def _estimate(self, given: dict[str, Any], label: str, note: Note) -> Document:
        configs = plain_names(given.get("configs", []), "estimate", "configs")
        if not configs and "model" not in given:
            raise UsageError("estimate: name a model (7b, llama-3-8b, a hub id) or configs")
        words = ["estimate", *configs]
        flags = {
            "model": "model",
            "gpu": "gpu",
            "method": "method",
            "sequence": "seq",
            "batch": "batch",
            "gpus": "gpus",
        }
        words += [f"--{flag}={given[key]}" for key, flag in flags.items() if key in given]
        words += ["--fit"] if given["fit"] else []
        end, found = await self._written(words, label, given, note, self._target(given))
        extra = self._extra(label, end, next_calls.after_estimate(given, found))
        return estimate_answer(found, extra, label, given["max_chars"])

    async def _run(self, given: dict[str, Any], label: str, note: Note) -> Document:
        command, target = _command(given, "run"), self._target(given)
        recording = self._recording(label)
        words = ["run", f"--seconds={given['seconds']:g}", f"--grace={_GRACE:g}", f"--recording={recording}"]
        words += [f"--steps={given['steps']}"] if "steps" in given else []
        end, report = await self._written(
            [*words, *_checks(given)], label, given, note, target,
            after=["--", *command], expected=given["seconds"], recording=recording, together=True,
        )  # fmt: skip
        return self._report(label, given, end, report, next_calls.after_run(given, report, label), target, recording)

    async def _verify(self, given: dict[str, Any], label: str, note: Note) -> Document:
        command, target = _command(given, "verify"), self._target(given)
        recording = self._recording(label)
        words = ["verify", f"--budget={given['budget_seconds']:g}s", f"--recording={recording}"]
        words += [f"--remedy={name}" for name in given.get("remedies", ())]
        words += [f"--top={given['top']}"] if "top" in given else []
        words += [f"--against={given['against']}"] if "against" in given else []
        words += [f"--vary={value}" for value in given.get("vary", ())]
        words += [f"--{flag}" for key, flag in (("unsafe", "unsafe"), ("apply", "keep")) if given[key]]
        end, report = await self._written(
            [*words, *_checks(given)], label, given, note, target,
            after=["--", *command], expected=given["budget_seconds"], recording=recording, together=True,
        )  # fmt: skip
        return self._report(
            label, given, end, report, next_calls.after_verify(given, report, label), target, recording=recording
        )

    async def _apply(self, given: dict[str, Any], label: str, note: Note) -> Document:
        kept = self._answers.get(given["answer"])
        if kept is None and not given["answer"].endswith(".json"):
            raise UsageError(f"apply: {self._unknown(given['answer'])}")
        (source,) = [str(kept.file)] if kept else plain_names([given["answer"]], "apply", "answer")
        folder = given.get("folder") or (kept.folder if kept else "")
        words = ["apply", source, *(f"--remedy={name}" for name in given.get("remedies", ()))]
        words += ["--diff"] if given["dry_run"] else []
        target = self._target({"folder": folder} if folder else {})
        end = await self._child(words, label, {"folder": folder} if folder else {}, note, target)
        said = end.errors_or(f"apply ended with exit code {end.code}")
        if end.code not in (0, _UNEXAMINED) or (end.code and not (end.out or "applied" in end.errors)):
            raise UsageError(said)
        before = kept.arguments if kept else {}
        calls = next_calls.after_apply(before, (kept.whole.get("run") or {}).get("recording") if kept else None)
        if given["dry_run"]:
            once = {key: value for key, value in given.items() if key not in ("dry_run",)}
            calls = [{"tool": "apply", "arguments": once, "why": "write it, if the user wants it"}]
        done = [line.removeprefix("gpudoctor: ") for line in end.errors.splitlines()]
        return filled({"written": not given["dry_run"], "done": done, "diff": end.out, "next": calls})  # type: ignore[no-any-return]

    async def _watch(self, given: dict[str, Any], label: str, note: Note) -> Document:
        target = self._target({})
        if not given.get("pids"):
            end = await self._child(["watch", "--find", "--json"], label, given, note, target)
            jobs = _json_of(end.out, end)
            calls = [
                {"tool": "watch", "arguments": {"pids": [job["pid"]]}, "why": "what it waits for"} for job in jobs[:1]
            ]
            verdict = f"{len(jobs)} training processes on this machine" if jobs else "no process trains on this machine"
            return {"verdict": verdict, "jobs": jobs, "next": calls}
        words = ["watch", *(str(int(pid)) for pid in given["pids"]), f"--duration={given['seconds']:g}"]
        end, report = await self._written(words, label, given, note, target, expected=given["seconds"])
        return self._report(label, given, end, report, next_calls.after_report(report), None)

    async def _autopsy(self, given: dict[str, Any], label: str, note: Note) -> Document:
        files = plain_names(given["files"], "autopsy", "files")
        if not files:
            raise UsageError("autopsy: no log was named; name the job's output: slurm-4711.out")
        end, report = await self._written(["autopsy", *files, *_checks(given)], label, given, note, self._target(given))
        return self._report(label, given, end, report, next_calls.after_autopsy(given, report), None)

    async def _preflight(self, given: dict[str, Any], label: str, note: Note) -> Document:
        target = self._target(given)
        # Rank 0 of 1: inside an allocation it would wait for the other nodes.
        words = ["preflight", "--quick", "--rank=0", "--world=1", f"--python={target.interpreter.prefix}"]
        words += [f"--storage={given['storage']}"] if "storage" in given else []
        end, report = await self._written(words, label, given, note, target, expected=20.0)
        return self._report(label, given, end, report, next_calls.after_report(report), target)

    async def _report_again(self, given: dict[str, Any], label: str, note: Note) -> Document:
        recordings = plain_names(given["recordings"], "report", "recordings")
        if not recordings:
            raise UsageError("report: no recording was named; an answer of run names one")
        target, written = self._target(given), given.get("output_file")
        if written is not None:
            form = _FORMATS.get(os.path.splitext(written)[1].lower())
            if form is None:
                raise UsageError(f"report: output_file {written!r} must end in one of: {', '.join(_FORMATS)}")
            words = ["report", *recordings, f"--format={form}", f"--output={written}", "--fail-on=never"]
            end = await self._child([*words, *_checks(given)], f"{label}-file", given, note, target)
            if end.code:
                raise IncompleteError(f"report: {end.errors_or('the file was not written')}")
        end, report = await self._written(["report", *recordings, *_checks(given)], label, given, note, target)
        answer = self._report(label, given, end, report, next_calls.after_report(report), None)
        return {**answer, **({"written": written} if written is not None else {})}

    async def _compare(self, given: dict[str, Any], label: str, note: Note) -> Document:
        pair = plain_names([given["before"], given["after"]], "compare", "recording")
        end, found = await self._written(["compare", *pair], label, given, note, self._target(given))
        return plain_answer(found, self._extra(label, end, []), label, given["max_chars"])

    async def _explain(self, given: dict[str, Any], label: str, note: Note) -> Document:
        (code,) = plain_names([given["code"]], "explain", "code")
        end = await self._child(["explain", code, "--format=json"], label, given, note, self._target({}))
        if end.code:
            raise UsageError(f"explain: {end.errors_or('no such check')}")
        found = _json_of(end.out, end)
        self._keep(label, given, found, end.out)
        return plain_answer(found, {"answer": label}, label, given["max_chars"])

    async def _list(self, given: dict[str, Any], label: str, note: Note) -> Document:
        words = [word for text in given["search"].split() if (word := text.lstrip("-"))]
        end = await self._child(["list", *words, "--format=json"], label, given, note, self._target({}))
        # a search without a result is an answer, too
        checks = [] if words and end.code == UsageError.exit_code else _json_of(end.out, end)["checks"]
        found = [{key: item.get(key) for key in _LISTED} for item in checks]
        self._keep(label, given, {"checks": found}, end.out)
        answer = page(found, given["start"], given["max_chars"], label, "checks")
        first = next(iter(found), None)
        calls = [{"tool": "explain", "arguments": {"code": first["code"]}, "why": "its manual page"}] if first else []
        return {**answer, "next": calls}

    async def _more(self, given: dict[str, Any], _label: str, _note: Note) -> Document:
        name, most = given["answer"], given["max_chars"]
        kept = self._answers.get(name)
        if kept is None:
            raise UsageError(f"more: {self._unknown(name)}")
        if "code" in given:
            return _one_finding(kept.whole, str(given["code"]), name, most)
        part = given.get("part", "findings")
        whole = {**kept.whole, **({"output": kept.output} if kept.output else {})}
        if part == "findings" and "summary" in whole:
            return report_answer({**_plain_report(whole)}, {}, name, most, start=given["start"])
        if part not in whole:
            raise UsageError(f"more: {name} has no part {part!r}; it has: {', '.join(whole)}")
        value = whole[part]
        if isinstance(value, list):
            return page(value, given["start"], most, name, part)
        if isinstance(value, str):
            return page(_pieces(value, most - 300), given["start"], most, name, part)
        return plain_answer(value if isinstance(value, dict) else {part: value}, {}, name, most)

    # -- what they share

    def _target(self, given: Mapping[str, Any]) -> TargetEnvironment:
        folder = existing_folder(given.get("folder") or ".", "folder")
        variables = {**self.variables, **given.get("environment", {})}
        for name in given.get("environment", {}):
            if not name or "=" in name:
                raise UsageError(f"environment: {name!r} is not a name of a variable")
        return target_environment(given.get("python"), folder, variables)

    def _recording(self, label: str) -> str:
        """A folder for a recording where `run` would have put it, so that it outlives the session."""
        home = state_folder()
        with suppress(OSError):
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
        return str(home / f"run-{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}-{label}")

    async def _child(
        self, words: Sequence[str], label: str, given: Mapping[str, Any], note: Note, target: TargetEnvironment,
        *, expected: float = 0.0, recording: str = "", together: bool = False,
    ) -> ChildEnd:  # fmt: skip
        if self._watchdog is None:
            self._watchdog = CleanupWatchdog(self._place)
        folder = existing_folder(given.get("folder") or ".", "folder")
        call = ChildCall(
            words=words,
            folder=folder,
            variables=target.variables,
            expected=expected or 5.0,
            limit=max(_READING, 2 * expected + _AROUND),
            recording=recording,
            together=together,
        )
        return await run_child(call, self._place / label, self._watchdog, note)

    async def _written(
        self, words: Sequence[str], label: str, given: Mapping[str, Any], note: Note, target: TargetEnvironment,
        *, after: Sequence[str] = (), **more: Any,
    ) -> tuple[ChildEnd, dict[str, Any]]:  # fmt: skip
        """Run a command that writes JSON into a file, and keep it. Raises `DoctorError` without one."""
        file = self._place / f"{label}.json"
        flags = ["--format=json", f"--output={file}"]
        end = await self._child([*words, *flags, *after], label, given, note, target, **more)
        try:
            found = load_json(read_text(file, REPORT))
        except (OSError, ValueError):
            sentence = end.errors_or(f"{words[0]} ended with exit code {end.code} and wrote no report")
            raise _Refused(f"{words[0]}: {sentence}", end.out if more.get("together") else "") from None
        self._keep(label, given, found, end.out if more.get("together") else "", file)
        return end, found

    def _keep(
        self, label: str, given: Mapping[str, Any], whole: Mapping[str, Any], output: str, file: Path | None = None
    ) -> None:
        folder = existing_folder(given.get("folder") or ".", "folder")
        place = file or self._place / f"{label}.json"
        self._answers[label] = _Kept(whole=whole, file=place, arguments=given, folder=folder, output=output)

    def _extra(self, label: str, end: ChildEnd, calls: list[next_calls.Call]) -> Document:
        return {"answer": label, "exit_code": end.code, "next": calls}

    def _report(
        self, label: str, given: Mapping[str, Any], end: ChildEnd, report: Mapping[str, Any],
        calls: list[next_calls.Call], target: TargetEnvironment | None, recording: str = "",
    ) -> Document:  # fmt: skip
        extra = self._extra(label, end, calls)
        if target is not None:
            extra["python"] = f"{target.interpreter.executable} ({target.why})"
        if recording:
            extra["recording"] = recording
            extra["output"] = end.out
        return report_answer(report, extra, label, given["max_chars"])

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


def _checks(given: Mapping[str, Any]) -> list[str]:
    return [f"--{flag}={word}" for flag in ("select", "ignore") for word in given.get(flag, ())]


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


def _plain_report(whole: Mapping[str, Any]) -> dict[str, Any]:
    """A report without what its first answer has shown beside the findings."""
    return {**whole, "run": None, "trial": None, "log": None, "preflight": None, "remarks": [], "problems": []}


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
