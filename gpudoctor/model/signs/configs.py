"""Config files as checks see them: written keys with their place, and what they mean across tools.

The reader (`gpudoctor.vitals.configs`) keeps only what somebody wrote: a tool's default is in no entry, so a
check that finds nothing here knows nothing. Positions are 1-based and point at the key; the value's own span
is there for an edit. What only a finding needs (evidence, edits, redaction) is imported when it is asked for:
an estimate reads configs too, and in a fraction of a second.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from gpudoctor.model.records import field, frozen

if TYPE_CHECKING:
    from gpudoctor.model.evidence import Setting
    from gpudoctor.model.remedy import TextEdit

Scalar: TypeAlias = int | float | str | bool | None
ConfigValue: TypeAlias = Scalar | tuple[Scalar, ...]
"""A value; a list of plain values is a tuple, other lists and mappings become entries of their own."""


class ConfigKind(Enum):
    """Whose file it is, told from its content."""

    HUGGINGFACE = "huggingface"
    """`TrainingArguments` of transformers (TRL's configs too), flat, YAML or JSON."""
    DEEPSPEED = "deepspeed"
    ACCELERATE = "accelerate"
    FSDP = "fsdp"
    """The `fsdp_config` file of a Hugging Face run."""
    LLAMA_FACTORY = "llama-factory"
    AXOLOTL = "axolotl"
    TORCHTUNE = "torchtune"
    LIGHTNING = "lightning"
    """Lightning CLI, or a section of a Lightning Trainer."""
    PEFT = "peft"
    QUANTISATION = "quantisation"
    """A bitsandbytes or other quantisation config alone."""
    SECTIONS = "sections"
    """Somebody's own training config: flat, or with sections such as training, data, monitor, lora."""
    MODEL = "model"
    """A model's `config.json`: its shape, no training settings."""
    KUBERNETES = "kubernetes"
    """A Kubernetes manifest: no config of ours (the job reader looks at it)."""
    UNKNOWN = "unknown"
    """Readable, and nothing that we know."""

    @property
    def trains(self) -> bool:
        """Whether the file configures a training run."""
        return self not in {ConfigKind.MODEL, ConfigKind.KUBERNETES, ConfigKind.UNKNOWN}


@frozen
class Entry:
    """One written key with a plain value or a list of plain values."""

    key: str
    """The dotted path as a person would write it: `training.fp16.enabled`, `datasets[0].path`."""
    parts: tuple[str, ...]
    """The path in parts; a list's index is a part of digits."""
    value: ConfigValue
    """The value as the training tools read it (YAML 1.1 words for booleans, `1e-5` a number)."""
    line: int
    """1-based line of the key (of the item in a list)."""
    column: int
    """1-based column of the key, in characters."""
    value_line: int
    value_column: int
    end_line: int
    end_column: int
    """1-based column after the value's last character."""
    text: str = ""
    """The value as written, quotes included."""

    @property
    def last(self) -> str:
        """The last part of the key."""
        return self.parts[-1]

    @property
    def interpolated(self) -> bool:
        """Whether the value is filled in by Hydra, OmegaConf or Jinja: only that tool knows it."""
        return isinstance(self.value, str) and any(mark in self.value for mark in ("${", "{{", "{%"))

    @property
    def number(self) -> int | float | None:
        """The value when it is a number (a boolean is none)."""
        return self.value if isinstance(self.value, int | float) and not isinstance(self.value, bool) else None


@frozen
class Section:
    """A mapping or a list of mappings in a config: a block that an edit may drop."""

    key: str
    line: int
    column: int
    end_line: int


@frozen
class Duplicate:
    """A key that stands twice in one mapping; the tools keep the last."""

    key: str
    line: int
    """1-based line of the key that wins."""
    first_line: int
    """1-based line of the one before it."""


@frozen
class CanonicalValue:
    """What one written key means, in words and units that are the same for every tool."""

    name: str
    """The canonical name: `logging_period`, `loader_workers`; the table is in the reader."""
    value: ConfigValue
    """The value in `unit`."""
    unit: str
    """`step`, `epoch`, `token`, `worker`... as in `Measurement.unit`; "" for words and switches."""
    file: "ConfigFile"
    entry: Entry

    @property
    def setting(self) -> "Setting":
        """The key as evidence."""
        return self.file.setting(self.entry)

    @property
    def number(self) -> int | float | None:
        """The value when it is a number (a boolean is none)."""
        return self.value if isinstance(self.value, int | float) and not isinstance(self.value, bool) else None


@frozen
class Said:
    """The reader's note of one meaning; `ConfigFile.meaning` turns it into a `CanonicalValue`."""

    value: ConfigValue
    unit: str
    key: str


@frozen(eq=False)
class ConfigFile:
    """One config file."""

    path: str
    kind: ConfigKind
    format: str
    """`yaml`, `json` or `toml`."""
    entries: Mapping[str, Entry]
    """Dotted key to entry, in the file's order."""
    text: str
    """The whole text. May hold secrets: never quote it in a report."""
    sections: Mapping[str, Section] = field(default_factory=dict)
    """Dotted key to block."""
    duplicates: tuple[Duplicate, ...] = ()
    notes: tuple[str, ...] = ()
    """What was special about reading it, each a sentence: comments in JSON, a template, a cut."""
    said: Mapping[str, tuple[Said, ...]] = field(default_factory=dict)
    """Canonical name to what the file says about it; ask through `meaning`."""
    ignored: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """1-based line to the codes silenced there by `# gpudoctor: ignore[...]`; `*` for a bare ignore."""
    ignore_reasons: Mapping[int, str] = field(default_factory=dict)

    def get(self, *keys: str) -> Entry | None:
        """The entry of the first of these dotted keys that is written."""
        return next((self.entries[key] for key in keys if key in self.entries), None)

    def value(self, *keys: str) -> ConfigValue:
        """The value of the first of these dotted keys that is written; None when none is."""
        entry = self.get(*keys)
        return None if entry is None else entry.value

    def find(self, *names: str) -> Iterator[Entry]:
        """Entries whose last part is one of the names, wherever they stand."""
        for entry in self.entries.values():
            if entry.last in names:
                yield entry

    def under(self, key: str) -> Iterator[Entry]:
        """Entries inside a section, at any depth."""
        inside = (key + ".", key + "[")
        for name, entry in self.entries.items():
            if name.startswith(inside):
                yield entry

    def has(self, key: str) -> bool:
        """Whether the key is written, as a value or as a section."""
        return key in self.entries or key in self.sections

    def meaning(self, name: str) -> tuple[CanonicalValue, ...]:
        """What this file says about a canonical name, in the file's order."""
        return tuple(
            CanonicalValue(name=name, value=said.value, unit=said.unit, file=self, entry=self.entries[said.key])
            for said in self.said.get(name, ())
        )

    def setting(self, entry: Entry) -> "Setting":
        """An entry as evidence, with path and line; a secret's value is masked."""
        import shlex

        from gpudoctor.model.evidence import Setting

        return Setting(
            key=entry.key,
            value="***" if is_secret(entry) else _text(entry.value),
            origin=self.path,
            path=self.path,
            line=entry.line,
            reproduce=f"sed -n {entry.line}p {shlex.quote(self.path)}",
        )

    def edit(self, entry: Entry, new_text: str) -> "TextEdit | None":
        """The edit that replaces an entry's value and touches nothing else; None where nothing stands there."""
        from gpudoctor.model.remedy import TextEdit

        if not entry.text:
            return None
        return TextEdit(
            path=self.path,
            line=entry.value_line,
            column=entry.value_column,
            end_line=entry.end_line,
            end_column=entry.end_column,
            new_text=new_text,
            expected=entry.text,
        )


@frozen
class Configs:
    """The config files of one job, read together."""

    files: tuple[ConfigFile, ...]
    unread: tuple[tuple[str, str], ...] = ()
    """Files that could not be read, each with a sentence (syntax error with its line, encoding, size)."""

    def of(self, *kinds: ConfigKind) -> tuple[ConfigFile, ...]:
        """The files of these kinds."""
        return tuple(file for file in self.files if file.kind in kinds)

    @property
    def trains(self) -> bool:
        """Whether any file configures a training run."""
        return any(file.kind.trains for file in self.files)

    def canonical(self, name: str) -> tuple[CanonicalValue, ...]:
        """Every written key that means this, over all files: `logging_period`, `loader_workers`..."""
        return tuple(meaning for file in self.files for meaning in file.meaning(name))


def is_secret(entry: Entry) -> bool:
    """Whether an entry holds a credential, by its name or its section; `pad_token` and `max_tokens` do not."""
    from gpudoctor.model.redaction import MASK, is_secret_entry, is_secret_name, mask_value

    if isinstance(entry.value, tuple):
        return bool(entry.value) and is_secret_name(entry.last)
    if entry.value is None or isinstance(entry.value, bool | float):
        return False
    if isinstance(entry.value, str) and is_secret_entry(entry.key.split(".")[:-1]):
        return mask_value("secret", entry.value) == MASK
    # `key` alone names an entry of data as often as a credential: its section decides (`wandb.key`).
    name = ".".join(entry.key.split(".")[-2:]) if entry.last.lower() == "key" else entry.last
    return mask_value(name, str(entry.value)) == MASK


def _text(value: ConfigValue) -> str:
    from gpudoctor.model.redaction import mask_text

    if isinstance(value, tuple):
        shown = ", ".join(_text(item) for item in value[:12])
        return f"[{shown}{', ...' if len(value) > 12 else ''}]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = mask_text(str(value))
    return text if len(text) <= 200 else text[:197] + "..."
