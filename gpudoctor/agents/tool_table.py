"""The tools of the MCP server: what an agent reads of each. Everything that it needs is in here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpudoctor.agents.short_answer import LARGEST, SMALLEST, USUAL

Schema = Mapping[str, Any]

INSTRUCTIONS = """\
gpudoctor examines deep-learning training jobs: why one is slow, short of memory, wrong or dead, and what to
change. Usual order: check (reads files, runs nothing) -> run (measures the command, unchanged) -> verify
(tries each remedy in pairs of bounded runs on copies) -> apply (writes the proven edits) -> run again ->
compare (before, after). A dead job: autopsy on its log. A job that runs now: watch. Will it fit: estimate. A
suspect machine: preflight. run and verify start the command that you name, and nothing else is ever started;
only apply edits files, and verify if apply=true. Answers are JSON. `next` is the call to make next;
`left_out` says how to get what was cut. Report to the user: the verdict, the line, the change, the measured
gain with its interval, and what stays open."""


def _text(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def _flag(description: str) -> Schema:
    return {"type": "boolean", "description": description, "default": False}


def _whole(description: str, low: int, high: int, **more: Any) -> Schema:
    return {"type": "integer", "description": description, "minimum": low, "maximum": high, **more}


def _number(description: str, low: float, high: float, default: float) -> Schema:
    return {"type": "number", "description": description, "minimum": low, "maximum": high, "default": default}


def _words(description: str) -> Schema:
    return {"type": "array", "items": {"type": "string"}, "description": description}


_FOLDER = _text("Working folder; other paths are relative to it. Default: the server's working folder.")
_PYTHON = _text(
    "Interpreter or environment folder of the target (.venv, /opt/env/bin/python). Default: the active "
    "environment, else the .venv of the folder, else gpudoctor's own if it has torch, else the first on PATH."
)
_MOST = _whole(
    "Longest answer in characters. What does not fit is cut, and left_out says how to get it.",
    SMALLEST,
    LARGEST,
    default=USUAL,
)
_SELECT = _words("Only these checks: codes (DATA001), topics (DATA) or names (loader-bound).")
_IGNORE = _words("Silence these checks; they are still counted.")
_COMMAND: Schema = {
    "type": ["array", "string"],
    "items": {"type": "string"},
    "description": 'What starts the training, as you would type it: ["python", "train.py", "--epochs", "1"], '
    '["torchrun", "--nproc_per_node=4", "train.py"]. A string is split into words; no shell expands it.',
}
_ENVIRONMENT: Schema = {
    "type": "object",
    "additionalProperties": {"type": "string"},
    "description": 'Variables to set for the command: {"CUDA_VISIBLE_DEVICES": "0"}.',
}

LONGEST_RUN, LONGEST_TRIALS, LONGEST_WATCH = 3_600, 7_200, 600


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTool:
    """One tool."""

    name: str
    title: str
    description: str
    properties: Mapping[str, Schema]
    required: tuple[str, ...] = ()
    read_only: bool = True
    """Whether it changes nothing outside the state folder of gpudoctor."""
    measures: bool = False
    """Whether it loads the machine: two at once would spoil each other's numbers."""
    hints: Mapping[str, Any] = field(default_factory=dict)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        return {
            "type": "object",
            "properties": {name: dict(rule) for name, rule in self.properties.items()},
            "required": list(self.required),
            "additionalProperties": False,
        }

    def as_object(self) -> dict[str, Any]:
        """The tool as the protocol lists it."""
        hints = {"readOnlyHint": self.read_only, "openWorldHint": False, **self.hints}
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.schema,
            "annotations": {"title": self.title, **hints},
        }


TOOLS = (
    AgentTool(
        name="check",
        title="Examine scripts, configs and this machine",
        description="""\
Reads training scripts, notebooks, configs, job scripts or folders, and this machine (driver, GPUs, packages,
limits), and lists what will make the training slow, wrong or die, each with its line, remedies and a patch.
Use it first. It never runs or imports the user's code. What it suspects from the source alone is a suspicion:
run measures it. Without targets it examines the machine only. Next: run with the command that starts the
script.""",
        properties={
            "targets": _words('Files or folders: ["train.py", "ds_config.json", "job.sbatch"]. Empty: this machine.'),
            "script_arguments": _words('Command-line arguments of the script: ["--lr", "3e-4"].'),
            "gpu": _text("GPU that the job will run on, if not this machine's: H100, 24GiB."),
            "gpus": _whole("GPUs that the job expects on this node.", 0, 1024),
            "ranks": _whole("Training processes on this node.", 1, 1024),
            "select": _SELECT,
            "ignore": _IGNORE,
            "python": _PYTHON,
            "folder": _FOLDER,
            "max_chars": _MOST,
        },
    ),
    AgentTool(
        name="estimate",
        title="Predict GPU memory before a run",
        description="""\
Predicts the GPU memory of a training job from formulas, without running anything: whether it fits the card,
at which instant it peaks, and what LoRA, QLoRA and other settings would take. Use it before a run, or after
out of memory. Give a model (7b, llama-3-8b, a config.json, a hub id) or training configs. With fit=true it
lists the settings that fit the card, fastest first. Next: change the setting it names, then run.""",
        properties={
            "model": _text("Size (7b), family and size (llama-3-8b), config.json, folder or hub id."),
            "configs": _words("Training configs that describe the job (train.yaml, ds_config.json)."),
            "gpu": _text("The card: H100, RTX 4090, 24GiB; several: 2x24GiB. Default: this machine's."),
            "method": _text("full, lora, qlora or another; default: all three side by side."),
            "sequence": _text("Tokens of a sequence: 2048, 4k."),
            "batch": _whole("Sequences of a micro-batch.", 1, 1_000_000),
            "gpus": _whole("GPUs that share the job.", 1, 100_000),
            "fit": _flag("Also list the settings that fit the card."),
            "folder": _FOLDER,
            "max_chars": _MOST,
        },
    ),
    AgentTool(
        name="run",
        title="Run a command and measure its training",
        description="""\
Starts the command unchanged, records its training loop, stops it after `seconds` or `steps` as Ctrl-C would,
and returns the diagnosis: where each step's time goes (data wait, forward, backward, ...), memory, which
lines, what to change. Use it after check, to measure what check suspects; a crash or a hang is diagnosed too.
It runs the user's program: files that the program writes are written. Nothing else is started. Progress notes
report the step; cancelling ends every process that it started. Give at least 20 steps, better 100, and let
start-up pass. Next: verify with the same command if there are remedies; explain for a code that you do not
know.""",
        properties={
            "command": _COMMAND,
            "seconds": _number("Stop after so many seconds.", 1, LONGEST_RUN, 40),
            "steps": _whole("Stop after so many training steps, if that is earlier.", 1, 1_000_000),
            "environment": _ENVIRONMENT,
            "select": _SELECT,
            "ignore": _IGNORE,
            "python": _PYTHON,
            "folder": _FOLDER,
            "max_chars": _MOST,
        },
        required=("command",),
        read_only=False,
        measures=True,
        hints={"destructiveHint": False, "idempotentHint": False},
    ),
    AgentTool(
        name="verify",
        title="Prove remedies by running them",
        description="""\
Runs the command several times for a few seconds each, with and without each remedy, in interleaved pairs, and
says which remedies are proven: how much faster (ratio with its interval) and whether the loss is the same.
Every run writes to a copy: the user's files stay as they are, unless apply=true writes the proven edits at
the end. Use it after run. The command should train for at least a minute if nobody stops it (more epochs, if
need be): runs are cut short. budget_seconds is for all runs together; a remedy that it does not reach is "not
tried", so name the few remedies that matter or allow more. Progress notes say which pair is running;
cancelling ends every process. Next: apply with this answer's name, or a larger budget.""",
        properties={
            "command": _COMMAND,
            "budget_seconds": _number("Time for all runs.", 10, LONGEST_TRIALS, 180),
            "remedies": _words('Only these remedies: ["DATA001-workers"]. Default: all that can be tried.'),
            "top": _whole("Only the remedies of the first so many findings.", 1, 100),
            "against": _text("Compare with this other command instead of trying remedies (one string)."),
            "vary": _words('Try values instead: ["num-workers=0,2,4"], ["ds.json:zero_optimization.stage=1,2"].'),
            "unsafe": _flag("Also try what may change results."),
            "apply": _flag("Write the proven edits into the user's files at the end."),
            "environment": _ENVIRONMENT,
            "select": _SELECT,
            "ignore": _IGNORE,
            "python": _PYTHON,
            "folder": _FOLDER,
            "max_chars": _MOST,
        },
        required=("command",),
        read_only=False,
        measures=True,
        hints={"destructiveHint": True, "idempotentHint": False},
    ),
    AgentTool(
        name="apply",
        title="Write proven edits into the files",
        description="""\
Writes the edits of an earlier answer into the user's files: without `remedies` those that the trials of a
verify answer have proven, else the named ones of any answer. dry_run=true returns the diff and writes
nothing. A line that has changed since the answer is left as it is. Use it when the user wants the change.
Next: run the command again, then compare the two recordings.""",
        properties={
            "answer": _text('Name of the earlier answer ("verify-2"), or the path of a saved JSON report.'),
            "remedies": _words('Remedies to apply: ["DATA001-workers"]. Default: the proven ones.'),
            "dry_run": _flag("Return the diff; write nothing."),
            "folder": _text("Working folder; default: that of the earlier answer."),
        },
        required=("answer",),
        read_only=False,
        hints={"destructiveHint": True, "idempotentHint": True},
    ),
    AgentTool(
        name="watch",
        title="Examine a training that runs now",
        description="""\
Samples running training processes for some seconds, without stopping or changing them, and says what they
wait for: data, a collective, a rank that is late, a hang. Use it when a job is running or stands still.
Without pids it lists the training processes of this machine. Next: explain for a code, or run for a full
measurement.""",
        properties={
            "pids": {
                "type": "array",
                "items": _whole("A process id.", 1, 2**31),
                "description": "Process ids, of ranks or of their launcher. Empty: list what trains here.",
            },
            "seconds": _number("Sample for so many seconds.", 2, LONGEST_WATCH, 8),
            "max_chars": _MOST,
        },
        measures=False,
    ),
    AgentTool(
        name="autopsy",
        title="Find why a job died, from its logs",
        description="""\
Reads what a dead job left behind (logs of any launcher, several ranks, kernel log, sacct, flight-recorder
dumps, memory snapshots) and names the first cause, its line, the consequences, and what to do. Use it when a
job has failed and its output exists. Add the script and configs to tie the cause to their lines. Next:
explain for the code, then check on the script.""",
        properties={
            "files": _words('Logs or folders of logs: ["slurm-4711.out", "logs/"]; also scripts and configs.'),
            "select": _SELECT,
            "ignore": _IGNORE,
            "folder": _FOLDER,
            "max_chars": _MOST,
        },
        required=("files",),
    ),
    AgentTool(
        name="preflight",
        title="Measure this machine's cards and links",
        description="""\
Loads the CPUs, cards and links of this machine for about 20 seconds and names what is slow or broken
beside reference values. Use it when the machine itself is suspect, or before a long job. It measures this
machine only; for several nodes tell the user to start `srun gpudoctor preflight`. Next: check, or the remedy
that it names.""",
        properties={
            "storage": _text("Also write and read in this folder, to measure it."),
            "python": _PYTHON,
            "folder": _FOLDER,
            "max_chars": _MOST,
        },
        measures=True,
    ),
    AgentTool(
        name="report",
        title="Report on a recorded run again",
        description="""\
Examines a recording again, without running anything: a folder or zip that run wrote (its answer names it), a
profiler trace, a log of nvidia-smi, a memory snapshot. With output_file it also writes a report for people:
.html has charts. Use it to look again, to examine what a colleague sent, or to hand the user a page. Next:
compare two recordings.""",
        properties={
            "recordings": _words("A recording; several for the nodes of one run."),
            "output_file": _text("Also write a report for people here; the ending decides: .html, .md, .sarif, .xml."),
            "select": _SELECT,
            "ignore": _IGNORE,
            "folder": _FOLDER,
            "max_chars": _MOST,
        },
        required=("recordings",),
        read_only=False,
        hints={"destructiveHint": False, "idempotentHint": True},
    ),
    AgentTool(
        name="compare",
        title="Compare two recorded runs",
        description="""\
Compares two recordings: the time of a step with an interval, phases, memory, and which findings came or went.
Use it after a change, with the recordings of the run before and the run after. "no clear difference" means
that the difference may be chance. Next: report the ratio and its interval to the user.""",
        properties={
            "before": _text("Recording of the first run."),
            "after": _text("Recording of the second run."),
            "folder": _FOLDER,
            "max_chars": _MOST,
        },
        required=("before", "after"),
    ),
    AgentTool(
        name="explain",
        title="Read the manual page of a check",
        description="""\
Returns the manual page of a check: what it finds, why it costs, how it knows, false alarms, remedies,
sources. Use it before you change something for a code that you do not know.""",
        properties={"code": _text("A code or a name: DATA001, loader-bound."), "max_chars": _MOST},
        required=("code",),
    ),
    AgentTool(
        name="list",
        title="List the checks",
        description="""\
Lists the checks with code, name, topic and title. `search` finds those of a topic, or those whose manual page
is about the words, best first. Use it to find the code for a symptom or an error message. Next: explain.""",
        properties={
            "search": _text('A topic, words of a symptom, or an error message: "data", "nan loss", "oom".', default=""),
            "start": _whole("First item of the page.", 1, 100_000, default=1),
            "max_chars": _MOST,
        },
    ),
    AgentTool(
        name="more",
        title="Get what an earlier answer left out",
        description="""\
Returns more of an earlier answer of this session: findings from a rank on (`start`), one finding whole
(`code`), or a part of the JSON report (`part`: outcomes, run, trial, log, preflight, remarks, silenced,
output, ...). Nothing is run.""",
        properties={
            "answer": _text('Name of the earlier answer: "check-1".'),
            "start": _whole("First rank, or first item of a part that is a list.", 1, 1_000_000, default=1),
            "code": _text("A finding's code: DATA001."),
            "part": _text("A part of the report."),
            "max_chars": _MOST,
        },
        required=("answer",),
    ),
)
BY_NAME = {tool.name: tool for tool in TOOLS}
