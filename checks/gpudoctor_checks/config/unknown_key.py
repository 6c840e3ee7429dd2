"""CFG005: a key that the reader of its file does not know."""

from collections.abc import Iterator

from gpudoctor.analysis.source.built_classes import built, declared_names
from gpudoctor.analysis.source.training_arguments import EXTENDED, arguments_class, in_a_test, read_by
from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, Setting, Severity
from gpudoctor.model.signs.configs import ConfigFile, ConfigKind, Entry, Section
from gpudoctor.model.signs.source import Call, Script, Source
from gpudoctor_checks.api_facts import facts
from gpudoctor_checks.config.known_keys import KINDS, everywhere, known, meant, tables

REFUSING = {
    ConfigKind.LLAMA_FACTORY: say("LLaMA-Factory refuses unknown keys"),
    ConfigKind.ACCELERATE: say("accelerate refuses unknown keys"),
}
"""Readers that stop at an unknown key of the top level."""

COMMENTS = ("_", "#", "//", "comment", "?")
"""How people write comments and private keys into JSON."""

MOST = 200
"""Unknown keys of one section; a file with more of them speaks a language of its own."""

SMALL = 4
"""Keys of a section up to which the share of unknown ones proves nothing: one slip of two is half."""

CALLS = {"LoraConfig": "peft-lora", "BitsAndBytesConfig": "bitsandbytes"}


class UnknownKey(Check):
    """A config has a key that its reader does not recognise.

    What it finds:
        - Misspelt keys of training arguments (files and calls) and of DeepSpeed, accelerate, LLaMA-Factory,
          axolotl, torchtune and Lightning configs. PEFT and bitsandbytes configs too. The finding names the
          likely key.
    Why it hurts:
        Strict readers (accelerate, LLaMA-Factory, DeepSpeed's ZeRO section, Python calls) stop the run. The
        others ignore the key: the run starts with the default, and the intended warm-up or offload is silently
        missing.
    How it knows:
        It compares each key with the names that the tool accepts, from tables with their versions. A key one
        letter away from a known one is a misspelling. gpudoctor ignores a key far from all of them: it is the user's
        own.
    False alarms:
        A key of the user's own that is spelt almost like a known one.
    Remedies:
        The known key, as an edit.
    References:
        - known_keys.json beside this check: each table has its source and version
        - https://www.deepspeed.ai/docs/config-json/
    """

    code = "CFG005"
    reads = frozenset({Reads.CONFIG, Reads.SOURCE, Reads.ENVIRONMENT})

    def examine(self, patient: Patient) -> Iterator[Finding]:
        source, configs = patient.source_and_configs
        for file in configs.files:
            if read_by(file.kind, source):
                yield from self._in_file(file, declared_names(source))
        yield from self._in_source(source)

    def _in_file(self, file: ConfigFile, own: frozenset[str]) -> Iterator[Finding]:
        names = KINDS.get(file.kind)
        if names is not None and not (file.kind is ConfigKind.PEFT and file.value("peft_type") not in {"LORA", None}):
            keys = known(names) | own
            yield from self._level(file, "", keys, REFUSING.get(file.kind, ""), names[0])
            for section, inside in tables()[names[0]].sections.items():
                closed = section in tables()[names[0]].closed
                refuses = say("DeepSpeed refuses unknown keys in {section}", section=section) if closed else ""
                yield from self._level(file, section, inside | own, refuses, names[0])
        elif file.kind is ConfigKind.LIGHTNING:
            for section in ("trainer", "fit.trainer"):
                yield from self._level(file, section, tables()["lightning-trainer"].keys | own, "", "lightning-trainer")

    def _level(
        self, file: ConfigFile, section: str, keys: frozenset[str], refuses: str, table: str
    ) -> Iterator[Finding]:
        places = _keys_in(file, section)
        unknown = [name for name, _ in places if name not in keys]
        # A reader that does not know most of the keys is not the reader of this file.
        if len(unknown) > MOST or 2 * len(unknown) > len(places) > SMALL:
            return
        renamed = {row.name.rpartition(".")[2] for row in facts(table)}  # or dropped, not misspelt
        for name, place in places:
            if name in keys or name.startswith(COMMENTS) or not name.isascii() or name in renamed:
                continue
            near = meant(name, keys) if name not in everywhere() else None
            if near is None or file.has(f"{section}.{near}" if section else near):
                continue
            text = say("{key} is not a key of {owner}; did you mean {near}?", key=place.key, owner=table, near=near)
            severity = Severity.ERROR if refuses else Severity.WARNING
            block = Setting(key=place.key, value="(a section)", origin=file.path, path=file.path, line=place.line)
            yield self.finding(
                text,
                evidence=(file.setting(place) if isinstance(place, Entry) else block,),
                severity=severity,
                breaks=refuses if severity is Severity.ERROR else None,
                subject=f"{file.path}:{place.line} {place.key}",
                detail=Facts(near=near, key=name),
            )

    # source

    def _in_source(self, source: Source) -> Iterator[Finding]:
        for script in source.scripts:
            for call in script.calls:
                known_call = CALLS.get(call.method) if call.name.partition(".")[0] in {"peft", "transformers"} else None
                base = arguments_class(call) if call.method[:1].isupper() else ""
                table = known_call or ("training-arguments" if base else "")
                if table and not in_a_test(call):
                    further = ("trl",) if base.rpartition(".")[2] in EXTENDED else ()
                    yield from self._call(script, call, known((table, *further)) | built(call).declared, table)

    def _call(self, script: Script, call: Call, keys: frozenset[str], table: str) -> Iterator[Finding]:
        renamed = {row.name for row in facts(table)} | everywhere()
        for keyword in call.node.keywords:
            name = keyword.arg
            near = meant(name, keys) if name is not None and name not in keys | renamed else None
            if near is None:
                continue
            raises = call.method != "BitsAndBytesConfig"
            yield self.finding(
                say("{method} has no argument {name}; did you mean {near}?", method=call.method, name=name, near=near),
                evidence=(script.span(keyword),),
                severity=Severity.ERROR if raises else Severity.WARNING,
                breaks=say("the call raises a TypeError") if raises else None,
                subject=f"{call.span.path}:{keyword.lineno} {name}",
                detail=Facts(near=near, key=str(name)),
            )


def _keys_in(file: ConfigFile, section: str) -> list[tuple[str, Entry | Section]]:
    """The last parts of the keys that stand directly in a section, with a value or with a block."""
    depth = len(section.split(".")) if section else 0
    found: list[tuple[str, Entry | Section]] = [
        (entry.last, entry)
        for entry in file.entries.values()
        if len(entry.parts) == depth + 1 and ".".join(entry.parts[:depth]) == section
    ]
    prefix = section + "." if section else ""
    for key, block in file.sections.items():
        rest = key.removeprefix(prefix)
        if key.startswith(prefix) and rest and "." not in rest and "[" not in rest:
            found.append((rest, block))
    return found
