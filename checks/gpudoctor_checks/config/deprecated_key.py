"""CFG009: a setting that newer versions have renamed or dropped."""

from collections.abc import Iterator

from gpudoctor.analysis.source.built_classes import built
from gpudoctor.analysis.source.declared_settings import Setup, Written, from_keyword
from gpudoctor.analysis.source.entry_points import in_a_training
from gpudoctor.analysis.source.pretrained_models import TRAINERS, trainers
from gpudoctor.analysis.source.target_versions import installed_version, is_dated, meant_version
from gpudoctor.analysis.source.training_arguments import in_a_test, training_arguments
from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, Severity
from gpudoctor.model.records import replace
from gpudoctor.model.signs.configs import ConfigKind
from gpudoctor.model.signs.source import Call, Script, Source
from gpudoctor_checks.api_facts import ApiFact, facts, reached

MAJOR = "5"
"""The major version of transformers that dropped what version 4 deprecated: many still run 4."""


class DeprecatedKey(Check):
    """A setting has been renamed or dropped by newer versions of its tool.

    What it finds:
        - `evaluation_strategy`, `no_cuda`, `per_gpu_train_batch_size`, `fp16_opt_level` and other former
          training arguments, in files, calls and launch lines.
        - `torch_dtype` and `use_auth_token` in `from_pretrained`, `tokenizer` in a Trainer.
        - `optim: adamw_hf` and other values that transformers no longer accepts.
    Why it hurts:
        A removed key raises a TypeError when the script starts, or a config's reader ignores it. A deprecated
        key warns now and fails after the next upgrade.
    How it knows:
        It compares with the releases in which keys came and went. A removed key is an error in a call, and a
        warning in a file. Without an installed version, a key removed within version 4 of transformers is a
        warning. A key removed in 5, or only deprecated, is a note. If the project's own files exclude the
        installed version, gpudoctor compares with the newest release that they admit. It then reports no error.
        In a project that uses an older torch, a removed key is a note. It is also a note if the project pins a
        package that the installed transformers needs newer. So is a key in a section of a config, which a
        program reads as it likes. In a script that trains nothing, a removed argument of `from_pretrained` is a
        note, and a deprecated one is silent.
    False alarms:
        An environment that pins an old version and was not examined; a key of your own with an old name.
    Remedies:
        Use the new name. It comes as an edit if the value stays the same.
    References:
        - api_facts.json of the checks: each row has its releases
        - https://github.com/huggingface/transformers/releases
    """

    code = "CFG009"
    reads = frozenset({Reads.CONFIG, Reads.SOURCE, Reads.ENVIRONMENT, Reads.LOG})
    log_messages_file = "log_messages.toml"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        source, _ = patient.source_and_configs
        for setup in training_arguments(patient):
            # No library reads its settings from TOML: such a table is the program's own.
            ours = setup.kind is not ConfigKind.AXOLOTL and not setup.path.endswith(".toml")
            if ours and not (setup.call is not None and in_a_test(setup.call)):
                yield from self._arguments(patient, setup)
        yield from self._loading(patient, source)
        yield from self._trainers(patient, source)

    def _arguments(self, patient: Patient, setup: Setup) -> Iterator[Finding]:
        for row in (*facts("training-arguments"), *facts("training-values")):
            item = setup.items.get(row.name)
            if item is None or (item.value is None and item.known) or (row.files_only and setup.call is not None):
                continue
            if not row.value or (item.known and str(item.value) == row.value):
                yield from self._judged(patient, row, (item,), setup)

    def _judged(
        self, patient: Patient, row: ApiFact, items: tuple[Written, ...], setup: Setup | None = None
    ) -> Iterator[Finding]:
        """What the version that a file is written for makes of a key of a setup, or of a call's argument."""
        path = items[0].place.path or ""
        meant, early = meant_version(patient, "transformers", path), not row.gone.startswith(MAJOR)
        call, own = setup is None or setup.call is not None, setup is not None and setup.kind is ConfigKind.SECTIONS
        # LLaMA-Factory pins transformers: without it, the installed release is not the one that will read the file.
        tool = setup is not None and setup.kind is ConfigKind.LLAMA_FACTORY
        pinned = tool and not early and installed_version(patient, "llamafactory") is None
        if meant.version is None:  # nobody says which
            if row.gone and not pinned:
                yield self._found(row, items, Severity.WARNING if early and not own else Severity.NOTE, row.gone, True)
            elif not row.gone and setup is None:
                yield self._found(row, items, Severity.NOTE, row.since, False)
            return
        gone = reached(meant.version, row.gone)
        if gone and not meant.installed:
            yield self._found(row, items, Severity.NOTE if own else Severity.WARNING, row.gone, True)
        elif gone:
            dated = is_dated(patient, path)
            # A program may read its own sections as it likes.
            severity = Severity.ERROR if call else Severity.WARNING
            severity = Severity.NOTE if dated or own or pinned else severity
            yield self._found(row, items, severity, meant.version, True, call and not dated, installed=True)
        elif meant.installed and reached(meant.version, row.since) and not row.value:
            yield self._found(row, items, Severity.NOTE, meant.version, False, installed=True)

    def _loading(self, patient: Patient, source: Source) -> Iterator[Finding]:
        """Arguments of from_pretrained: one finding a script and argument."""
        for script in source.scripts:
            loads = [
                call
                for call in script.calls
                if call.method == "from_pretrained"
                and call.name.startswith("transformers.")
                and not any(part in call.name for part in ("Config.", "Tokenizer", "Extractor", "Processor"))
            ]
            for found in self._passed(patient, script, loads, "from-pretrained"):
                # A model that is loaded to generate or to be converted is trained by nobody: what breaks is
                # worth knowing, what only warns is not.
                if in_a_training(source, script):
                    yield found
                elif found.cost.breaks:
                    yield replace(found, severity=Severity.NOTE)

    def _trainers(self, patient: Patient, source: Source) -> Iterator[Finding]:
        own: dict[str, list[Call]] = {}
        for script, call in trainers(source):
            kind = built(call)
            # A subclass with a constructor of its own may do with an argument what it likes.
            taken = {row.name for row in facts("trainer")} & kind.declared
            if kind.of(frozenset({"transformers"}), TRAINERS) and not taken:
                own.setdefault(script.path, []).append(call)
        for script in source.scripts:
            yield from self._passed(patient, script, own.get(script.path, []), "trainer")

    def _passed(self, patient: Patient, script: Script, calls: list[Call], table: str) -> Iterator[Finding]:
        """The rows whose argument some calls of a script are given, judged by the version that is meant."""
        for row in facts(table):
            found = [
                from_keyword(script, call, row.name)
                for call in calls
                if not in_a_test(call) and any(keyword.arg == row.name for keyword in call.node.keywords)
            ]
            items = tuple(item for item in found if item is not None and not (item.known and item.value is None))
            if items:
                yield from self._judged(patient, row, items)

    def _found(
        self,
        row: ApiFact,
        items: tuple[Written, ...],
        severity: Severity,
        version: str,
        gone: bool,
        called: bool = False,
        *,
        installed: bool = False,
    ) -> Finding:
        first = items[0]
        release = say("{table} {gone}", table="transformers", gone=version)
        fails = say("transformers refuses the value") if row.value else say("the call raises a TypeError")
        return self.finding(
            say(
                "{what} {gone} {release}; now: {new}.",
                what=f"{first.key}={row.value}" if row.value else first.key,
                gone=say("is gone in") if gone else say("is deprecated in"),
                release=release,
                new=row.new,
            ),
            evidence=tuple(item.place for item in items),
            severity=severity,
            breaks=fails if called else None,
            subject=f"{first.place.path}:{first.place.line} {row.name}",
            detail=Facts(
                new=row.new.rpartition(".")[2] if row.same else row.new,
                same=row.same,
                value=row.value,
                installed=installed,
            ),
        )
