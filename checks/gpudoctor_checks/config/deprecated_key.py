"""CFG009: a setting that newer versions have renamed or dropped."""

from collections.abc import Iterator

from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Cost,
    Evidence,
    Finding,
    Patient,
    Reads,
    Severity,
    Unavailable,
)
from gpudoctor.model.reading.setups import TRAINING_ARGUMENTS, in_a_test, training_arguments
from gpudoctor.model.reading.trained import trainers
from gpudoctor.model.reading.written import Setup, Written, from_entry, from_keyword
from gpudoctor.model.signs.configs import ConfigFile, ConfigKind
from gpudoctor.model.signs.source import Call, Script, Source
from gpudoctor.model.workload import optional
from gpudoctor_checks.config.deprecations import Renamed, reached, rows

MAJOR = "5"
"""The major version of transformers that dropped what version 4 deprecated: many still run 4."""

FILES = {ConfigKind.DEEPSPEED: "deepspeed", ConfigKind.ACCELERATE: "accelerate", ConfigKind.AXOLOTL: "axolotl"}


class DeprecatedKey(Check):
    """A setting has been renamed or dropped by newer versions of its tool.

    What it finds:
        `evaluation_strategy`, `no_cuda`, `per_gpu_train_batch_size`, `fp16_opt_level` and other former
        training arguments, in files, calls and launch lines; `torch_dtype` and `use_auth_token` in
        `from_pretrained`, `tokenizer` in a Trainer; old keys of DeepSpeed, accelerate and axolotl configs.
    Why it hurts:
        A key that is gone raises a TypeError when the script starts, or is ignored by a config's reader. A
        deprecated one warns now and fails after the next upgrade.
    How it knows:
        It compares with the fields of the installed version, read from its files: gone there is an error in a
        call, and a warning in a file. Without an installed version: gone within version 4 of transformers is a
        warning, gone in 5 or only deprecated is a note.
    False alarms:
        An environment that pins an old version and was not examined; a key of one's own with an old name.
    Remedies:
        The new name, as an edit where the value carries over.
    References:
        - deprecated_keys.json beside this check: each row has its releases
        - https://github.com/huggingface/transformers/releases
        - https://www.deepspeed.ai/docs/config-json/
    """

    code = Code("CFG009")
    name = "deprecated-key"
    reads = frozenset({Reads.CONFIG, Reads.SOURCE, Reads.ENVIRONMENT})
    severity = Severity.WARNING

    def examine(self, patient: Patient) -> Iterator[Finding]:
        configs, source = optional(lambda: patient.configs), optional(lambda: patient.source)
        if configs is None and source is None:
            raise Unavailable("no config and no script was given")
        version = _version(patient)
        for setup in training_arguments(patient):
            if setup.kind is not ConfigKind.AXOLOTL:
                yield from self._arguments(setup, version, _fields(patient, setup))
        for file in configs.files if configs is not None else ():
            yield from self._file(file)
        if source is not None:
            yield from self._loading(source, version)
            yield from self._trainers(source, version)

    def _arguments(self, setup: Setup, version: str | None, fields: frozenset[str] | None) -> Iterator[Finding]:
        if setup.call is not None and in_a_test(setup.call):
            return
        for row in rows("training-arguments"):
            item = setup.items.get(row.key)
            if item is None or (item.value is None and item.known):
                continue
            if fields is not None:
                gone = row.key not in fields
                if not gone and not reached(version, row.since):
                    continue
                called = gone and setup.call is not None
                severity = Severity.ERROR if called else Severity.WARNING if gone else Severity.NOTE
                yield self._found(row, (item,), severity, f"transformers {version}", gone, called, True)
            elif row.gone and not (setup.kind is ConfigKind.LLAMA_FACTORY and row.gone.startswith(MAJOR)):
                early = not row.gone.startswith(MAJOR)
                severity = (
                    Severity.WARNING if early and setup.kind is not ConfigKind.SECTIONS else Severity.NOTE
                )
                yield self._found(row, (item,), severity, f"transformers {row.gone}", True, False)

    def _file(self, file: ConfigFile) -> Iterator[Finding]:
        table = FILES.get(file.kind, "")
        for row in rows(table):
            entry = file.entries.get(row.key)
            if (
                entry is not None
                and entry.value is not None
                and not (row.key == "fp16" and entry.value is False)
            ):
                severity = Severity.WARNING if row.gone else Severity.NOTE
                item = from_entry(file, entry)
                yield self._found(
                    row, (item,), severity, f"{table} {row.gone or row.since}", bool(row.gone), False
                )
        if file.kind is ConfigKind.HUGGINGFACE:
            for row in rows("from-pretrained")[:1]:
                entry = file.entries.get(row.key)
                if entry is not None and entry.value is not None:
                    item = from_entry(file, entry)
                    yield self._found(row, (item,), Severity.NOTE, f"transformers {row.since}", False, False)

    def _loading(self, source: Source, version: str | None) -> Iterator[Finding]:
        """Arguments of from_pretrained: one finding a script and argument."""
        for script in source.scripts:
            loads = [
                call for call in script.calls if call.method == "from_pretrained" and _of_transformers(call)
            ]
            for row in rows("from-pretrained"):
                items = _passed(script, loads, row.key)
                if items:
                    yield from self._judged(row, items, version)

    def _trainers(self, source: Source, version: str | None) -> Iterator[Finding]:
        own: dict[str, list[Call]] = {}
        for script, call in trainers(source):
            if call.name.startswith("transformers."):
                own.setdefault(script.path, []).append(call)
        for script in source.scripts:
            for row in rows("trainer"):
                items = _passed(script, own.get(script.path, []), row.key)
                if items:
                    yield from self._judged(row, items, version)

    def _judged(self, row: Renamed, items: tuple[Written, ...], version: str | None) -> Iterator[Finding]:
        if version is None:
            yield self._found(
                row, items, Severity.NOTE, f"transformers {row.gone or row.since}", bool(row.gone), False
            )
        elif reached(version, row.gone):
            yield self._found(row, items, Severity.ERROR, f"transformers {version}", True, True, True)
        elif reached(version, row.since):
            yield self._found(row, items, Severity.NOTE, f"transformers {version}", False, False, True)

    def _found(
        self,
        row: Renamed,
        items: tuple[Written, ...],
        severity: Severity,
        release: str,
        gone: bool,
        called: bool,
        installed: bool = False,
    ) -> Finding:
        places: tuple[Evidence, ...] = tuple(item.place for item in items)
        first = items[0].place
        return self.finding(
            f"{items[0].key} {'is gone from' if gone else 'is deprecated in'} {release}; now: {row.new}.",
            evidence=places,
            confidence=Confidence.SUSPECTED,
            severity=severity,
            cost=Cost(breaks="the call raises a TypeError") if called else None,
            subject=f"{first.path}:{first.line} {row.key}",
            facts=(
                ("new", row.new.rpartition(".")[2] if row.same else row.new),
                ("same", row.same),
                ("installed", installed),
            ),
        )


def _passed(script: Script, calls: list[Call], key: str) -> tuple[Written, ...]:
    found = [
        item
        for call in calls
        if not in_a_test(call) and any(keyword.arg == key for keyword in call.node.keywords)
        if (item := from_keyword(script, call, key)) is not None
    ]
    return tuple(item for item in found if not (item.known and item.value is None))


def _of_transformers(call: Call) -> bool:
    return call.name.startswith("transformers.") and "Config." not in call.name and "Tokenizer" not in call.name


def _version(patient: Patient) -> str | None:
    packages = optional(lambda: patient.packages)
    return packages.version("transformers") if packages is not None else None


def _fields(patient: Patient, setup: Setup) -> frozenset[str] | None:
    """The installed version's own fields, where transformers is installed and its class is meant."""
    fields = optional(lambda: patient.argument_fields)
    if fields is None or "TrainingArguments" not in fields.fields:
        return None
    if setup.call is not None and setup.call.method in TRAINING_ARGUMENTS:
        return fields.fields.get(setup.call.method)
    return fields.fields.get("Seq2SeqTrainingArguments") or fields.fields["TrainingArguments"]
