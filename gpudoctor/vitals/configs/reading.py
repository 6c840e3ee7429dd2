"""One file to a `ConfigFile`, and many to `Configs`."""

import os
import re
from collections.abc import Iterable
from typing import Final

from gpudoctor.model.signs.configs import ConfigFile, ConfigKind, Configs
from gpudoctor.vitals.configs.canonical_settings import canonical
from gpudoctor.vitals.configs.config_kinds import recognise
from gpudoctor.vitals.configs.text import UnreadConfig, read_text
from gpudoctor.vitals.configs.tree import MAX_ENTRIES, ConfigNode, Flat, flatten

_IGNORE: Final = re.compile(
    r"(?:#|//)\s*gpudoctor:\s*ignore(?:\[([^\]]*)\])?[ \t]*:?[ \t]*(.*?)\s*$", re.MULTILINE
)

FULL = f"larger or deeper than any training config: only its first {MAX_ENTRIES:,} settings were read"
INTERPOLATED = "values of the form ${...} are filled in by Hydra or OmegaConf: gpudoctor does not judge them"


def read_configs(paths: Iterable[str | os.PathLike[str]]) -> Configs:
    """Read config files. What cannot be read is in `unread` with a sentence; nothing is raised for it."""
    files: list[ConfigFile] = []
    unread: list[tuple[str, str]] = []
    for path in dict.fromkeys(os.fspath(item) for item in paths):
        try:
            text, notes = read_text(path)
            files.append(parse(path, text, notes))
        except UnreadConfig as error:
            unread.append((path, f"{path}: {error}"))
    return Configs(files=tuple(files), unread=tuple(unread))


def parse(path: str, text: str, notes: tuple[str, ...] = ()) -> ConfigFile:
    """The config that a text holds; the path tells the format where its suffix does. Raises `UnreadConfig`."""
    form, documents, more = _documents(path, text)
    flats = [flatten(document, text) for document in documents] or [Flat()]
    kinds = [recognise(flat) for flat in flats]
    chosen = next((i for i, kind in enumerate(kinds) if kind is not ConfigKind.UNKNOWN), 0)
    flat, kind = flats[chosen], kinds[chosen]
    notes = (*notes, *more)
    if len(documents) > 1:
        notes = (*notes, f"{len(documents)} YAML documents in one file; document {chosen + 1} was read")
    if flat.full:
        notes = (*notes, FULL)
    if kind.trains and "${" in text and any("${" in str(entry.value) for entry in flat.entries.values()):
        notes = (*notes, INTERPOLATED)
    ignored, reasons = _ignored(text)
    return ConfigFile(
        path=path,
        kind=kind,
        format=form,
        entries=flat.entries,
        sections=flat.sections,
        duplicates=tuple(flat.duplicates),
        notes=notes,
        text=text,
        said=canonical(flat, kind, text),
        ignored=ignored,
        ignore_reasons=reasons,
    )


def _documents(path: str, text: str) -> tuple[str, list[ConfigNode], tuple[str, ...]]:
    """Format, documents and notes. A suffix decides; without a telling one the first character does.

    Each reader is imported when its format is met.
    """
    suffix = os.path.splitext(path)[1].lower()
    if suffix == ".toml":
        from gpudoctor.vitals.configs.toml_reader import read_toml

        node, notes = read_toml(text)
        return "toml", [node], notes
    if suffix in {".json", ".jsonc", ".json5"} or (
        suffix not in {".yaml", ".yml"} and text.lstrip()[:1] == "{"
    ):
        from gpudoctor.vitals.configs.json_reader import read_json

        node, notes = read_json(text)
        return "json", [node], notes
    from gpudoctor.vitals.configs.yaml_reader import read_yaml

    documents, notes = read_yaml(text)
    return "yaml", documents, notes


def _ignored(text: str) -> tuple[dict[int, tuple[str, ...]], dict[int, str]]:
    """Lines with `# gpudoctor: ignore[CODE] reason`; alone on its line, the comment speaks of the next line."""
    codes: dict[int, tuple[str, ...]] = {}
    reasons: dict[int, str] = {}
    if "gpudoctor:" not in text:
        return codes, reasons
    for number, line in enumerate(text.split("\n"), 1):
        match = _IGNORE.search(line)
        if match is None:
            continue
        named = tuple(code.strip() for code in (match[1] or "").split(",") if code.strip()) or ("*",)
        for at in (number, number + 1) if line.lstrip().startswith(("#", "//")) else (number,):
            codes[at] = codes.get(at, ()) + named
            if match[2]:
                reasons[at] = match[2]
    return codes, reasons
