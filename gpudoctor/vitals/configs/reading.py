"""One file to a `ConfigFile`, many to `Configs`; quick answers for walking a folder."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from gpudoctor.analysis.source.training_arguments import option_words
from gpudoctor.lang import say
from gpudoctor.model.external_files import read_head
from gpudoctor.model.read_limits import CONFIG_IN_FOLDER
from gpudoctor.model.records import replace
from gpudoctor.model.signs.configs import ConfigFile, ConfigKind, Configs
from gpudoctor.vitals.configs.canonical_settings import canonical
from gpudoctor.vitals.configs.config_kinds import composed, recognise
from gpudoctor.vitals.configs.config_text import UnreadConfig, decode, read_text, words
from gpudoctor.vitals.configs.tree import MAX_ENTRIES, ConfigNode, Flat, flatten
from gpudoctor.vitals.configs.yaml_reader import resolve

# Quick answers for walking a folder: is this file a training config, is it a Kubernetes job?

_SUFFIXES: Final = (".yaml", ".yml", ".json", ".toml")
_LARGEST: Final = CONFIG_IN_FOLDER.most
"""Bytes. Walking looks at no larger file; one that is named is read up to `text.LIMIT`."""
_MARKS: Final = re.compile(
    rb"batch_size|num_workers|learning_rate|\blr\b|epochs|max_steps|max_iters|logging_steps|log_every|log_interval"
    rb"|_freq\b|_component_|zero_optimization|steps_per_print|wall_clock_breakdown|flops_profiler|compute_environment"
    rb"|distributed_type|mixed_precision|finetuning_type|base_model|max_epochs|lora|load_in_[48]bit|fsdp|fp16|bf16"
    rb"|gradient_|save_steps|eval_steps|trainer|optimizer|amp\b|transformer_layer|peft_type|target_modules",
    re.IGNORECASE,
)
"""Words without which no kind is recognised; a cheap look before the file is parsed."""
_JOB_KINDS: Final = words(
    """Job CronJob Pod Deployment StatefulSet ReplicaSet JobSet PyTorchJob MPIJob TFJob XGBoostJob PaddleJob
    TrainJob RayJob RayCluster LeaderWorkerSet Workflow AppWrapper"""
)
_COMPOSED: Final = re.compile(rb"^defaults:[^\S\n]*(?:#[^\n]*)?\n\s*- ", re.MULTILINE)
_SKIPPED: Final = words(
    """__pycache__ node_modules site-packages dist-packages venv env wandb mlruns lightning_logs outputs build
    dist checkpoints"""
)
"""Folders of what tools wrote. A run's output holds copies of its configs, and they are not to be edited."""
_MOST: Final = 20_000
"""Files that a walk looks at by name."""


def find_configs(folder: str | os.PathLike[str]) -> list[Path]:
    """Training configs in a folder, by content and name, without links to folders and what Hydra composes."""
    found: list[Path] = []
    groups: set[Path] = set()
    for path in _candidates(Path(folder)):
        if _COMPOSED.search(_head(os.fspath(path), _LARGEST) or b""):
            groups.add(path.parent)
        elif looks_like_config(path) is not None:
            found.append(path)
    return [path for path in found if groups.isdisjoint(path.parents)]


def _candidates(folder: Path) -> Iterator[Path]:
    seen = 0
    for here, folders, files in os.walk(folder, onerror=None, followlinks=False):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith((".", "checkpoint-"))
            and name not in _SKIPPED
            and not os.path.exists(os.path.join(here, name, "pyvenv.cfg"))
        )
        for name in sorted(files):
            seen += 1
            if seen > _MOST:
                return
            if name.lower().endswith(_SUFFIXES) and not name.startswith("."):
                yield Path(here, name)


def looks_like_config(path: str | os.PathLike[str]) -> ConfigKind | None:
    """The kind of a training config, None for every other file. Never raises.

    Models' descriptions, Kubernetes manifests, trainer states, package and tool settings, and data are None.
    """
    name = os.fspath(path)
    if not name.lower().endswith(_SUFFIXES):
        return None
    raw = _head(name, _LARGEST)
    if raw is None or len(raw) > _LARGEST or not _MARKS.search(raw.replace(b"\0", b"")):
        return None
    try:
        kind = parse(name, decode(raw)).kind
    except UnreadConfig:
        return None
    return kind if kind.trains else None


def looks_like_job(path: str | os.PathLike[str]) -> bool:
    """Whether a YAML file is a manifest that runs something, of Kubernetes, compose or SkyPilot; templates count.

    Never raises.
    """
    text = (_head(os.fspath(path), _LARGEST) or b"").decode("utf-8", "replace").replace("\r\n", "\n")
    for document in re.split(r"^---", text, flags=re.MULTILINE):
        top = dict(re.findall(r"^(\w+):[ \t]*[\"']?(\w*)", document, re.MULTILINE))
        if "kind" in top and "apiVersion" in top:
            if top["kind"] in _JOB_KINDS:
                return True
        elif ("services" in top and "image:" in document) or ("run" in top and {"resources", "num_nodes"} & top.keys()):
            return True
    return False


def _head(path: str, size: int) -> bytes | None:
    """The file's first bytes, one more than asked for when there are more; None when it cannot be read."""
    try:
        return read_head(path, size + 1)
    except OSError:
        return None


_IGNORE: Final = re.compile(r"(?:#|//)\s*gpudoctor:\s*ignore(?:\[([^\]]*)\])?[ \t]*:?[ \t]*(.*?)\s*$", re.MULTILINE)

FULL = say(
    "larger or deeper than any training config: only its first {max_entries:,} settings were read",
    max_entries=MAX_ENTRIES,
)
RELAXED = say("JSON with comments or trailing commas: DeepSpeed reads it, Python's json module refuses it")
COMPOSED = say("Hydra builds the run from this file and others: gpudoctor does not judge it")
INTERPOLATED = say("values of the form ${{...}} are filled in by Hydra or OmegaConf: gpudoctor does not judge them")


def read_configs(paths: Iterable[str | os.PathLike[str]], words: Sequence[str] = ()) -> Configs:
    """Read config files, with the words of a command line in place of what they say, as a parser takes both.

    What cannot be read is in `unread` with a sentence; nothing is raised for it.
    """
    files: list[ConfigFile] = []
    unread: list[tuple[str, str]] = []
    for path in dict.fromkeys(os.fspath(item) for item in paths):
        try:
            files.append(parse(path, read_text(path), words))
        except UnreadConfig as error:
            unread.append((path, f"{path}: {error}"))
    return Configs(files=tuple(files), unread=tuple(unread))


def parse(path: str, text: str, words: Sequence[str] = ()) -> ConfigFile:
    """The config that a text holds; the path tells the format where its suffix does. Raises `UnreadConfig`."""
    form, documents, notes = _documents(path, text)
    flats = [flatten(document, text) for document in documents] or [Flat()]
    kinds = [recognise(flat) for flat in flats]
    chosen = next((i for i, kind in enumerate(kinds) if kind is not ConfigKind.UNKNOWN), 0)
    flat, kind = flats[chosen], kinds[chosen]
    if words and kind in _OVERRIDDEN and (keys := _override(flat, words)):
        notes = (*notes, say("the command line sets {keys}", keys=", ".join(keys)))
    if len(documents) > 1:
        number = {"documents": len(documents), "chosen": chosen + 1}
        notes = (*notes, say("{documents} YAML documents in one file; document {chosen} was read", **number))
    if flat.full:
        notes = (*notes, FULL)
    if composed(flat):
        notes = (*notes, COMPOSED)
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
        said=canonical(flat, kind),
        ignored=ignored,
        ignore_reasons=reasons,
    )


_OVERRIDDEN: Final = frozenset(ConfigKind) - {
    ConfigKind.DEEPSPEED,
    ConfigKind.ACCELERATE,
    ConfigKind.FSDP,
    ConfigKind.PEFT,
    ConfigKind.MODEL,
    ConfigKind.KUBERNETES,
}
"""Files whose reader takes a command line, too."""


def _override(flat: Flat, words: Sequence[str]) -> list[str]:
    """Give entries the values of `--key value`, `--key=value` and `key=value`; the keys that were there."""
    pairs = [word for word in words if "=" in word and not word.startswith("-")]  # Hydra's
    options = option_words(tuple(word for word in words if word not in pairs))
    given = {name: value or "true" for name, value in options.items()}
    for pair in pairs:
        name, _, value = pair.lstrip("+").partition("=")
        given[name.replace("-", "_")] = value
    for name in given.keys() & flat.entries.keys():
        flat.entries[name] = replace(flat.entries[name], value=resolve(given[name]), text="")
    return [name for name in given if name in flat.entries]


def _documents(path: str, text: str) -> tuple[str, list[ConfigNode], tuple[str, ...]]:
    """Format, documents and notes. A suffix decides; without a telling one the first character does.

    Each reader is imported when its format is met.
    """
    suffix = os.path.splitext(path)[1].lower()
    if suffix == ".toml":
        from gpudoctor.vitals.configs.toml_reader import read_toml

        return "toml", [read_toml(text)], ()
    if suffix == ".json" or (suffix not in {".yaml", ".yml"} and text.lstrip()[:1] == "{"):
        from gpudoctor.vitals.configs.json_reader import plain_json, read_json

        plain = plain_json(text)
        return "json", [read_json(plain)], () if plain == text else (RELAXED,)
    from gpudoctor.vitals.configs.yaml_reader import read_yaml

    return "yaml", read_yaml(text), ()


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
