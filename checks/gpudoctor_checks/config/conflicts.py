"""Settings that do not go together: rows of conflicts.json, asked of every place where settings are written.

A row's conditions each name a side, a key (or some, with |) and what it must be. The sides are those of one case:
A training arguments, E a DeepSpeed config, F a section of a config file, C a call, T a Trainer, M a model that is
loaded (or a file, Y), J the cards, D deepspeed.initialize; L and E are arguments
and the DeepSpeed config that they run with.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.config_links import links
from gpudoctor.analysis.source.control_flow import switched_off
from gpudoctor.analysis.source.declared_settings import Setup, Tool, Written, base_name, from_entry, from_keyword
from gpudoctor.analysis.source.pretrained_models import trained_models, trainers
from gpudoctor.analysis.source.training_arguments import deepspeed_configs, in_a_test, training_arguments
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Severity
from gpudoctor.model.evidence import Setting
from gpudoctor.model.signs.configs import ConfigFile, ConfigKind
from gpudoctor.model.signs.source import Call, Script
from gpudoctor.model.unavailable import optional
from gpudoctor_checks.config.disagreement import sentence, settings_finding

Case = dict[str, Setup]
CLASSES = ("BitsAndBytesConfig",)


@cache
def _table() -> dict[str, Any]:
    raw: dict[str, Any] = json.loads(files(__package__).joinpath("conflicts.json").read_text("utf-8"))
    return raw


def conflicts(check: Check, patient: Patient, code: str = "") -> Iterator[Finding]:
    """A check's findings: its rows, or another one's, in every case that has their sides."""
    said = set()
    for row in _table()["rows"]:
        when = [condition.split() for condition in row["when"]] if row["code"] == (code or check.code) else []
        for case in _cases(patient) if when else ():
            first = case[when[0][0]] if case.keys() == {side for side, *_ in when} else None
            kind = "" if first is None else first.kind.value if first.kind else first.class_name.rpartition(".")[2]
            if first is None or kind not in row.get("of", kind).split(" ") or kind in row.get("but", "").split():
                continue
            matched = [_holds(case, *condition) for condition in when]
            items = [item for item in matched if isinstance(item, Written)]
            places = (row["say"], *(item.place for item in items))
            if None in matched or places in said:
                continue
            said.add(places)
            left = [case[side] for (side, *_), item in zip(when, matched, strict=True) if item is False]
            yield settings_finding(
                check,
                sentence(row["say"], first.title, *items[:2], other=case[when[-1][0]].title),
                *items,
                breaks=say(row.get("breaks", "")),
                certain=all(item.sure for item in items) and all(map(_complete, left)),
                severity=Severity[row.get("severity", "WARNING")],
                cure=row.get("cure", ""),
                subject=f" {items[0].key}",
            )


def _complete(setup: Setup) -> bool:
    """Whether a setting that is not written has its default: no other place can set it."""
    call = setup.call
    plain = call is not None and not call.open_ended and call.name == setup.class_name
    return plain or setup.whole or setup.file is not None


def _holds(case: Case, side: str, keys: str, must: str, *words: str) -> "Written | bool | None":
    """The setting that fulfils a condition, False for one that need not be written, None where it does not hold."""
    item = (case[side].on if must == "on" else case[side].get)(*keys.split("|"))
    value = "" if item is None or item.value is None else str(item.value).lower()
    if must == "unset":
        left = item is None or (item.known and (item.off or value in {"", "0", *words}))
        return (item or False) if left else None
    if item is None or not (item.known or must in {"set", "word"}):
        return None
    holds = _foreign(case, item) if must == "foreign" else _TESTS[must](item, value, words)
    return item if holds else None


_TESTS: Mapping[str, Callable[[Written, str, Sequence[str]], bool]] = {
    "on": lambda item, _, __: item.on,
    "set": lambda item, value, _: not item.known or not (item.off or value in {"", "()"}),
    "=": lambda _, value, words: value in words,
    "word": lambda item, _, words: item.sure and item.word in words,
    "not": lambda _, value, words: value not in {"", *words},
    "has": lambda _, value, words: any(word in value for word in words),
    "textual": lambda item, _, __: item.file is not None and item.file.format == "yaml" and _textual(item),
    "above": lambda item, _, words: item.number is not None and item.number > float(words[0]),
}


def _textual(item: Written) -> bool:
    """Whether PyYAML reads the number as text: it wants a dot, and a sign in the exponent."""
    return bool(item.entry and re.fullmatch(r"[-+]?(\d+[eE][-+]?\d+|\d+\.\d*[eE]\d+)", item.entry.text))


def _foreign(case: Case, item: Written) -> bool:
    """Whether a class of layers is that of another architecture than the model's."""
    model = case["M"].get("model")
    name = str(model.value).rstrip("/").rpartition("/")[2].lower() if model is not None else ""
    own = next((block for pattern, block in _table()["blocks"] if re.search(pattern, name)), item.value)
    return own != item.value and any(item.value == block for _, block in _table()["blocks"])


_CASTS = ("float(", "type=float", "eval(", "set_defaults", "add_implicit_resolver", "pydantic", "OmegaConf")
"""Words of a program that may turn text into numbers."""


@once
def _cases(patient: Patient) -> list[Case]:
    source, configs = patient.source_and_configs
    arguments, engines, joined = training_arguments(patient), deepspeed_configs(patient), links(patient)
    found: list[Case] = [{"A": one} for one in arguments] + [{"E": one} for one in engines]
    found += [{"L": link.arguments, "E": link.deepspeed} for link in joined if link.sure]
    read = [file for file in configs.files if file.kind.trains]
    sections = [section for file in read for section in _sections(file)]
    found += [{"F": section} for section in sections]
    card = optional(lambda: patient.job.card) or " ".join(str(gpu.name) for gpu in optional(lambda: patient.gpus) or ())
    if card:
        place = Setting(key="card", value=card, origin="--gpu")
        item = Written(key="card", value=card, known=True, sure=True, place=place)
        cards = Setup(tool=Tool.TRANSFORMERS, kind=None, path="", line=1, title=card, items={"card": item})
        found += [{"A": one, "J": cards} for one in arguments]
    models = [section for section in sections if section.get("model") is not None]
    for script in source.scripts:
        calls = [call for call in script.calls if not in_a_test(call) and not switched_off(source, call)]
        starts = list(script.calls_to("deepspeed.initialize"))
        found += [
            {"E": one, "D": _call(script, starts[0])}
            for one in engines
            if one.call in starts or len(starts) == len(engines) == 1
        ]
        made = [_call(script, call) for call in calls if call.method in CLASSES and call.name[:1] != "?"]
        found += [{"C": one} for one in made]
        found += [{"C": one, "F": section} for one in made for section in sections]
        reads = [_call(script, call, "stream") for call in script.calls_to("yaml.safe_load", "yaml.load")]
        casts = any(word in other.text for other in source.scripts for word in _CASTS)
        found += [{"F": section, "Y": one} for one in reads if not casts for section in sections]
        loads = [call for call in calls if call.method == "from_pretrained" and "Model" in call.name]
        models += [_call(script, call, "pretrained_model_name_or_path") for call in loads]
        building = [one for one in arguments if one.script is script]
        trained = [_call(script, call) for home, call in trainers(source) if home is script]
        if len(building) == len(trained) == 1:
            found.append({"A": building[0], "T": trained[0]})
    built = [one for one in arguments if one.call is not None]
    found += [{"A": built[0], "M": _call(script, load)} for script, load in trained_models(source) if len(built) == 1]
    for model in models:
        found += [{"E": link.deepspeed, "M": model} for link in joined if link.arguments.script in (None, model.script)]
        found += [{"F": section, "M": model} for section in sections]
    return found


def _sections(file: ConfigFile) -> Iterator[Setup]:
    for section in ("", *(key for key in file.sections if "[" not in key)):
        under = file.under(section) if section else file.entries.values()
        start = len(section) + 1 if section else 0
        items = {entry.key[start:]: from_entry(file, entry) for entry in under}
        if "base_model" in items or "model_name_or_path" in items:
            items["model"] = items.get("base_model") or items["model_name_or_path"]
        yield Setup.of_file(Tool.TRANSFORMERS, file, items, section, whole=file.kind is ConfigKind.LLAMA_FACTORY)


def _call(script: Script, call: Call, first: str = "") -> Setup:
    items = {name: item for name in call.keywords if (item := from_keyword(script, call, name)) is not None}
    given = call.argument(first, 0) if first else None
    if given is not None:
        value = getattr(given, "value", None)
        known = isinstance(value, str)
        items["model"] = Written(key=first, value=str(value), known=known, sure=True, place=call.span)
    return Setup(
        tool=Tool.TRANSFORMERS, kind=None, path=script.path, line=call.span.line, items=items, script=script,
        title=f"{base_name(script.path)}:{call.span.line}", call=call, class_name=call.name,
    )  # fmt: skip
