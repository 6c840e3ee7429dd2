"""Asks the libraries that will read the settings, in the target's interpreter: one child, ended if it hangs.

Nothing of the user's is imported: the child is isolated, stands in an empty folder, and sees no card and no network.
"""

import ast
import hashlib
import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from gpudoctor.analysis.source.config_links import world_size
from gpudoctor.analysis.source.declared_settings import Setup, Written, base_name, from_entry, from_keyword
from gpudoctor.analysis.source.training_arguments import in_a_test, of_arguments, read_by, training_arguments
from gpudoctor.lang import say
from gpudoctor.model import Patient
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.configs import ConfigFile, ConfigKind
from gpudoctor.model.signs.packages import Packages, ReaderAnswer
from gpudoctor.model.signs.source import Call, Script
from gpudoctor.model.unavailable import Unread, optional
from gpudoctor.vitals.configs.config_text import key_tables
from gpudoctor.vitals.packages import normalise

SECONDS: Final = 60.0
"""Longest wait for all answers: cold imports of torch and a library from a network disk."""
_CHILD: Final = Path(__file__).with_name("library_child.py")
_RANKS: Final = (1, 2, 4, 8, 16)
"""Numbers of processes that are tried where no launch line tells the job's."""
_UNKNOWN: Final = object()


@frozen(kw_only=False)
class _Question:
    """Settings, and the class that is asked about them."""

    title: str
    row: Mapping[str, Any]
    """The row of `readers` in keys.toml."""
    reader: str
    items: Mapping[str, Written]
    """Dotted name below the section to the setting; indexes of lists are names of digits."""
    choice: bool = False
    """Whether another class of the family may read them."""


def read_answers(patient: Patient) -> tuple[ReaderAnswer, ...]:
    """What the libraries say; raises `Unread` where none that is to read settings is installed."""
    asked: list[tuple[_Question, dict[str, Any]]] = []
    for question in _questions(patient):
        values = _values(question)
        if values is not None:
            asked.append((question, values))
    if not asked:
        return ()
    packages = patient.packages
    world = world_size(patient)
    ranks = (world,) if world else _RANKS
    versions: dict[str, str | None] = {}
    for question, _ in asked:
        versions[question.reader] = packages.version(normalise(question.reader.partition(".")[0]))
    there = [(question, values) for question, values in asked if versions[question.reader]]
    if not there:
        raise Unread(
            "not installed in {prefix}: {libraries}; gpudoctor compared their settings with tables alone",
            libraries=say(", ".join(sorted({reader.partition(".")[0] for reader in versions}))),
            prefix=packages.prefix,
        )
    told = [
        {**_USUAL, **item.row, "reader": item.reader, "choice": item.choice, "values": values, "ranks": ranks}
        for item, values in there
    ]
    said = _answers(packages, told)
    found: list[ReaderAnswer] = []
    for (question, _), answer in zip(there, said, strict=True):
        items = question.items
        if answer and "absent" not in answer:
            found.append(
                ReaderAnswer(
                    title=question.title,
                    reader=f"{question.reader} {versions[question.reader]}",
                    place=next(iter(items.values())).place,
                    settings={name.rpartition(".")[2]: item.place for name, item in items.items()},
                    sure=all(item.sure for item in items.values()),
                    ranks=ranks,
                    refused={int(count): text for count, text in answer["refused"].items()},
                    unknown=() if question.choice else tuple(answer["unknown"]),
                )
            )
    return tuple(found)


_USUAL: Final = {"family": "", "how": "", "fixed": {}}
"""What a row of `readers` does not say."""
_KEPT: Final = 512
"""Answers that are kept on the disk: the import of a library takes seconds, and most questions come again."""


def _answers(packages: Packages, questions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any] | None]:
    """An answer a question; None for those that the child did not come to. Those of the same question to the same
    environment are read from the user's cache folder.
    """
    there = [[item.name, item.version, _changed(item.metadata)] for item in packages.distributions.values()]
    environment = [packages.executable, packages.python, sorted(there), _CHILD.read_text(encoding="utf-8")]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "gpudoctor", "answers")
    kept: list[Path] = []
    answers: list[dict[str, Any] | None] = []
    for question in questions:
        key = hashlib.sha256(json.dumps([environment, question], default=str).encode()).hexdigest()
        kept.append(folder / f"{key}.json")
        try:
            answers.append(json.loads(kept[-1].read_text(encoding="utf-8")))
        except (OSError, ValueError):
            answers.append(None)
    left = [at for at, answer in enumerate(answers) if answer is None]
    if not left:
        return answers
    # a child that was ended gave fewer
    for at, answer in zip(left, _ask(packages.executable, [questions[at] for at in left]), strict=False):
        answers[at] = answer
        if answer.get("lasts"):
            with suppress(OSError):  # no home, a full disk: then it is asked again
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                part = kept[at].with_suffix(f".{os.getpid()}")
                part.write_text(json.dumps(answer), encoding="utf-8")
                part.replace(kept[at])
    with suppress(OSError):
        for old in sorted(folder.iterdir(), key=os.path.getmtime)[:-_KEPT]:
            old.unlink()
    return answers


def _changed(path: str) -> int:
    """When a distribution was installed; 0 where that is not known."""
    try:
        return os.stat(path).st_mtime_ns if path else 0
    except OSError:
        return 0


def _ask(python: str, questions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The answers until the child ended, or was ended."""
    with tempfile.TemporaryDirectory(prefix="gpudoctor-ask-", ignore_cleanup_errors=True) as folder:
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "LANG") if name in os.environ}
        home = dict.fromkeys(("HOME", "HF_HOME", "TMPDIR", "XDG_CACHE_HOME", "TRITON_CACHE_DIR"), folder)
        off = {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}
        child = subprocess.Popen(
            [python, "-I", "-B", str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={**kept, **home, **off},
            start_new_session=True,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        try:
            said, _ = child.communicate(json.dumps(questions), timeout=SECONDS)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            said, _ = child.communicate()
    return [json.loads(line) for line in said.splitlines() if line.endswith("}")]


def _questions(patient: Patient) -> Iterator[_Question]:
    source = optional(lambda: patient.source)
    configs = optional(lambda: patient.configs)
    yield from _of_arguments(patient)
    rows = key_tables()["readers"]
    for file in configs.files if configs is not None else ():
        row = rows.get(file.kind.value)
        if row is not None and file.kind is not ConfigKind.HUGGINGFACE and read_by(file.kind, source):
            items = _items(file, row.get("section", ""))
            yield _Question(base_name(file.path), row, row["reader"], items)
    for script in source.scripts if source is not None else ():
        for row in rows.values():
            for call in script.calls_to(*row.get("calls", "").split()):
                items = _keywords(script, call)
                if items:
                    yield _Question(f"{base_name(script.path)}:{call.span.line}", row, call.name, items)


def _of_arguments(patient: Patient) -> Iterator[_Question]:
    """Training arguments: of a call, or of what the program's parser reads."""
    row = key_tables()["readers"]["huggingface"]
    parsed = _parsed_class(patient)
    for setup in training_arguments(patient):
        if setup.call is not None:
            reader = _built_class(setup)
        elif setup.kind not in _PARSED:
            reader = ""
        else:
            reader = row["reader"] if parsed is None else parsed
        if reader:
            items = setup.items if setup.file is None else _items(setup.file, "")
            choice = setup.call is None and parsed is None
            yield _Question(setup.title, row, reader, items, choice)


def _keywords(script: Script, call: Call) -> dict[str, Written]:
    """What a call gives by name; nothing of one that is given more than that, or that stands in a test."""
    if call.open_ended or call.node.args or in_a_test(call):
        return {}
    items: dict[str, Written] = {}
    for name in call.keywords:
        item = from_keyword(script, call, name)
        if item is not None:
            items[name] = item
    return items


_PARSED: Final = frozenset({ConfigKind.HUGGINGFACE, None})
"""Files, and launch lines, that a parser of transformers reads."""


def _built_class(setup: Setup) -> str:
    """The library's class that a call makes of all that is written in it, else ""."""
    call, name = setup.call, setup.class_name
    if call is None or call.name != name or call.open_ended or len(call.node.args) > 1 or in_a_test(call):
        return ""
    return name if name.partition(".")[0] in {"transformers", "trl"} else ""


def _parsed_class(patient: Patient) -> str | None:
    """The library's class that the program's parser fills; "" for a class of its own, None without a parser."""
    source = optional(lambda: patient.source)
    found: str | None = None
    for script in source.scripts if source is not None else ():
        for call in script.calls_to("transformers.HfArgumentParser", "trl.TrlParser"):
            names = [script.imports.get(node.id, "") for node in ast.walk(call.node) if isinstance(node, ast.Name)]
            found = next(filter(of_arguments, names), found or "")
    return found


def _items(file: ConfigFile, section: str) -> dict[str, Written]:
    """The settings below a section, by their dotted names in it."""
    below = tuple(section.split(".")) if section else ()
    depth = len(below)
    items: dict[str, Written] = {}
    for entry in file.entries.values():
        if tuple(entry.parts[:depth]) == below:
            items[".".join(entry.parts[depth:])] = from_entry(file, entry)
    return items


def _values(question: _Question) -> dict[str, Any] | None:
    """The settings as the class takes them; None where a value that may matter is not known."""
    left = question.row.get("left", "").split()
    free = question.row.get("free", "").split()
    values: dict[str, Any] = {}
    for name, item in question.items.items():
        *outer, last = name.split(".")
        if name.partition(".")[0] in left:
            continue
        value = _value(item)
        if value is _UNKNOWN:
            auto = item.entry is not None and item.entry.value == "auto"
            if name in free or auto:
                continue
            return None
        inner = values
        for part in outer:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return {name: _lists(value) for name, value in values.items()}


def _value(item: Written) -> Any:
    if item.known:
        return list(item.value) if isinstance(item.value, tuple) else item.value
    if item.node is not None:
        with suppress(ValueError, TypeError, SyntaxError):
            return ast.literal_eval(item.node)
    return item.word if re.match(r"torch\.\w+$", item.node_text) else _UNKNOWN


def _lists(value: Any) -> Any:
    """Mappings whose names are all indexes, as the lists that they were."""
    if not isinstance(value, dict):
        return value
    made = {name: _lists(inner) for name, inner in value.items()}
    if made and all(name.isdigit() for name in made):
        return list(made.values())
    return made
