"""Settings that do not go together: rows of conflicts.json, asked of every place where settings are written.

A row's conditions each name a side, a key (or some, with |) and what it must be. The sides are those of one case, as
letters in the table and as words here.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.config_links import links
from gpudoctor.analysis.source.control_flow import switched_off
from gpudoctor.analysis.source.declared_settings import Setup, Written, from_entry, from_keyword
from gpudoctor.analysis.source.pretrained_models import trained_models, trainers
from gpudoctor.analysis.source.training_arguments import deepspeed_configs, in_a_test, training_arguments
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Severity
from gpudoctor.model.job_devices import lowest_capability
from gpudoctor.model.signs.configs import ConfigFile, ConfigKind
from gpudoctor.model.signs.source import Call, Known, Script
from gpudoctor_checks.config.disagreement import sentence, settings_finding

ARGUMENTS: Final = "A"
"""Training arguments: a call of the class, or what is mapped to them."""
ENGINE: Final = "E"
"""A DeepSpeed config."""
LINKED: Final = "L"
"""Training arguments together with the DeepSpeed config (the engine of the case) that they run with."""
SECTION: Final = "F"
"""A section of a config file, or all of the file."""
CALL: Final = "C"
"""A call of one of `CLASSES`."""
TRAINER: Final = "T"
"""The Trainer that gets the arguments."""
MODEL: Final = "M"
"""A model that is loaded, or the section of a file that names one."""
INITIALIZE: Final = "D"
"""deepspeed.initialize, beside the config that it gets."""
YAML_READER: Final = "Y"
"""The call of PyYAML that reads a file."""

Case = dict[str, Setup]
"""Side to the settings that stand there."""
Match = Written | bool | None
"""The setting that fulfils a condition, False for one that need not be written, None where it does not hold."""
CLASSES = ("BitsAndBytesConfig", "LLM")


@cache
def _table() -> dict[str, Any]:
    raw: dict[str, Any] = json.loads(files(__package__).joinpath("conflicts.json").read_text("utf-8"))
    return raw


class _Condition(NamedTuple):
    """One of a row's: `F eval_strategy|evaluation_strategy = steps`."""

    side: str
    keys: list[str]
    """Names of one setting: the first that is written counts."""
    must: str
    words: list[str]


def _condition(text: str) -> _Condition:
    side, keys, must, *words = text.split()
    return _Condition(side, keys.split("|"), must, words)


def conflicts(check: Check, patient: Patient, code: str = "") -> Iterator[Finding]:
    """A check's findings: its rows, or another one's, in every case that has their sides."""
    said: set[tuple[object, ...]] = set()
    for row in _table()["rows"]:
        if row["code"] != (code or check.code):
            continue
        conditions = [_condition(text) for text in row["when"]]
        sides = {condition.side for condition in conditions}
        for case in _cases(patient).get(frozenset(sides), ()):
            if not _concerns(row, case[conditions[0].side], patient):
                continue
            matched = [_holds(case, condition) for condition in conditions]
            if None in matched:
                continue
            places = (row["say"], *(item.place for item in matched if isinstance(item, Written)))
            if places not in said:
                said.add(places)
                yield _finding(check, row, case, conditions, matched)


def _concerns(row: dict[str, Any], first: Setup, patient: Patient) -> bool:
    """Whether the row speaks of this kind of file, or of this class, and of the job's card."""
    kind = first.kind.value if first.kind else first.class_name.rpartition(".")[2]
    if "of" in row and kind not in row["of"].split(" "):
        return False
    if "below" in row and (lowest_capability(patient) or row["below"]) >= row["below"]:
        return False
    return kind not in row.get("but", "").split()


def _finding(
    check: Check, row: dict[str, Any], case: Case, conditions: Sequence[_Condition], matched: Sequence[Match]
) -> Finding:
    items = [item for item in matched if isinstance(item, Written)]
    unwritten = [case[condition.side] for condition, item in zip(conditions, matched, strict=True) if item is False]
    certain = all(item.sure for item in items) and all(_complete(setup) for setup in unwritten)
    other = case[conditions[-1].side]
    first = case[conditions[0].side]
    return settings_finding(
        check,
        sentence(row["say"], first.title, *items[:2], other=other.title, heads=_heads(first)),
        *items,
        breaks=say(row.get("breaks", "")),
        certain=certain,
        severity=Severity[row.get("severity", "WARNING")],
        cure=row.get("cure", ""),
        subject=f" {items[0].key}",
    )


def _complete(setup: Setup) -> bool:
    """Whether a setting that is not written has its default: no other place can set it."""
    if setup.whole or setup.file is not None:
        return True
    call = setup.call
    return call is not None and not call.open_ended and call.name == setup.class_name


def _holds(case: Case, condition: _Condition) -> Match:
    setup = case[condition.side]
    item = setup.on(*condition.keys) if condition.must == "on" else setup.get(*condition.keys)
    if condition.must in {"unset", "missing"}:
        if item is None:
            return False
        return item if condition.must == "unset" and _unset(item, condition.words) else None
    if item is None:
        return None
    if not item.known and condition.must not in {"set", "word"}:
        return None
    if condition.must == "foreign":
        return item if _foreign(case, item) else None
    if condition.must == "indivisible":
        heads = _heads(setup)
        return item if heads and item.number and heads % item.number else None
    return item if _fulfils(item, condition.must, condition.words) else None


def _lower(item: Written) -> str:
    return "" if item.value is None else str(item.value).lower()


def _unset(item: Written, words: Sequence[str]) -> bool:
    """Whether a setting is written as if it were not: switched off, nought, or one of `words`."""
    return item.known and (item.off or _lower(item) in {"", "0", *words})


def _fulfils(item: Written, must: str, words: Sequence[str]) -> bool:
    value = _lower(item)
    if must == "on":
        return item.on
    if must == "set":
        return not item.known or not (item.off or value in {"", "()"})
    if must == "=":
        return value in words
    if must == "word":
        return item.sure and item.word in words
    if must == "not":
        return value not in {"", *words}
    if must == "textual":
        return item.file is not None and item.file.format == "yaml" and _textual(item)
    if must == "above":
        return item.number is not None and item.number > float(words[0])
    raise ValueError(f"conflicts.json: no condition is called {must}")


def _textual(item: Written) -> bool:
    """Whether PyYAML reads the number as text: it wants a dot, and a sign in the exponent."""
    return bool(item.entry and re.fullmatch(r"[-+]?(\d+[eE][-+]?\d+|\d+\.\d*[eE]\d+)", item.entry.text))


def _foreign(case: Case, item: Written) -> bool:
    """Whether a class of layers is that of another architecture than the model's."""
    model = case[MODEL].get("model")
    name = str(model.value).rstrip("/").rpartition("/")[2].lower() if model is not None else ""
    blocks = _table()["blocks"]
    own = next((block for pattern, block in blocks if re.search(pattern, name)), item.value)
    return own != item.value and any(item.value == block for _, block in blocks)


def _heads(setup: Setup) -> int:
    """Attention heads of the model that is named beside the setting; 0 where that is in no table."""
    item = setup.get("model", "actor_rollout_ref.model.path")
    name = str(item.value).rstrip("/").rpartition("/")[2].lower() if item is not None else ""
    return next((heads for pattern, heads in _table()["heads"] if re.search(pattern, name)), 0)


_CASTS = ("float(", "type=float", "eval(", "set_defaults", "add_implicit_resolver", "pydantic", "OmegaConf")
"""Words of a program that may turn text into numbers."""


@once
def _cases(patient: Patient) -> Mapping[frozenset[str], list[Case]]:
    """The cases by the sides that they have."""
    found: dict[frozenset[str], list[Case]] = {}
    for case in _Places(patient).cases():
        found.setdefault(frozenset(case), []).append(case)
    return found


class _Places:
    """All places where settings are written, and the cases that they make."""

    def __init__(self, patient: Patient) -> None:
        self.source, configs = patient.source_and_configs
        self.arguments = training_arguments(patient)
        self.engines = deepspeed_configs(patient)
        self.links = links(patient)
        self.calls = [(script, self._calls(script)) for script in self.source.scripts]
        trains = [file for file in configs.files if file.kind.trains]
        self.sections = [section for file in trains for section in _sections(file)]
        texts = [script.text for script in self.source.scripts]
        self.casts = any(word in text for text in texts for word in _CASTS)

    def cases(self) -> Iterator[Case]:
        """In the order in which they are told."""
        for arguments in self.arguments:
            yield {ARGUMENTS: arguments}
        for engine in self.engines:
            yield {ENGINE: engine}
        for link in self.links:
            if link.sure:
                yield {LINKED: link.arguments, ENGINE: link.deepspeed}
        for section in self.sections:
            yield {SECTION: section}
        for script, calls in self.calls:
            yield from self._of_script(script, calls)
        yield from self._of_models()

    def _calls(self, script: Script) -> list[Call]:
        """Those that build or load something, and that training may come to."""
        named = [call for call in script.calls if call.method in CLASSES or call.method == "from_pretrained"]
        return [call for call in named if not in_a_test(call) and not switched_off(self.source, call)]

    def _of_script(self, script: Script, calls: list[Call]) -> Iterator[Case]:
        starts = list(script.calls_to("deepspeed.initialize"))
        if len(starts) == len(self.engines) == 1:
            yield {ENGINE: self.engines[0], INITIALIZE: _call(script, starts[0])}
        of_classes = [call for call in calls if call.method in CLASSES and not call.name.startswith("?")]
        made = [_call(script, call) for call in of_classes]
        for one in made:
            yield {CALL: one}
        for one in made:
            for section in self.sections:
                yield {CALL: one, SECTION: section}
        if not self.casts:
            for call in script.calls_to("yaml.safe_load", "yaml.load"):
                reader = _call(script, call, "stream")
                for section in self.sections:
                    yield {SECTION: section, YAML_READER: reader}
        arguments = [one for one in self.arguments if one.script is script]
        trained = [call for home, call in trainers(self.source) if home is script]
        if len(arguments) == len(trained) == 1:
            yield {ARGUMENTS: arguments[0], TRAINER: _call(script, trained[0])}

    def _of_models(self) -> Iterator[Case]:
        built = [one for one in self.arguments if one.call is not None]
        if len(built) == 1:
            for script, load in trained_models(self.source):
                yield {ARGUMENTS: built[0], MODEL: _call(script, load)}
        for model in self._models():
            yield {MODEL: model}
            for link in self.links:
                if link.arguments.script in (None, model.script):
                    yield {ENGINE: link.deepspeed, MODEL: model}
            for section in self.sections:
                yield {SECTION: section, MODEL: model}

    def _models(self) -> Iterator[Setup]:
        """Sections that name a model, and calls that load one."""
        for section in self.sections:
            if section.get("model") is not None:
                yield section
        for script, call in trainers(self.source):
            if isinstance(call.argument("model", 0), Known):
                yield _call(script, call, "model")
        for script, calls in self.calls:
            for call in calls:
                if call.method == "from_pretrained" and "Model" in call.name:
                    yield _call(script, call, "pretrained_model_name_or_path")


def _sections(file: ConfigFile) -> Iterator[Setup]:
    """All of a file (its section ""), and each mapping in it that is no item of a list."""
    for section in ("", *(key for key in file.sections if "[" not in key)):
        entries = file.under(section) if section else file.entries.values()
        start = len(section) + 1 if section else 0
        items = {entry.key[start:]: from_entry(file, entry) for entry in entries}
        if "base_model" in items or "model_name_or_path" in items:
            items["model"] = items.get("base_model") or items["model_name_or_path"]
        whole = file.kind is ConfigKind.LLAMA_FACTORY
        yield Setup.of_file(file, items, section, whole=whole)


def _call(script: Script, call: Call, first: str = "") -> Setup:
    """A call's keywords as settings; its first argument, which is called `first`, is the setting `model`."""
    items: dict[str, Written] = {}
    for name in call.keywords:
        item = from_keyword(script, call, name)
        if item is not None:
            items[name] = item
    given = call.argument(first, 0) if first else None
    if given is not None:
        value = getattr(given, "value", None)
        known = isinstance(value, str)
        items["model"] = Written(key=first, value=str(value), known=known, sure=True, at=call.span)
    return Setup.of_call(script, call, call.name, items)
