"""Quick answers for walking a folder: is this file a training config, is it a Kubernetes job?"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gpudoctor.model.external_files import read_head
from gpudoctor.model.read_limits import CONFIG_IN_FOLDER
from gpudoctor.model.signs.configs import ConfigKind
from gpudoctor.vitals.configs.reading import parse
from gpudoctor.vitals.configs.text import UnreadConfig, decode
from gpudoctor.vitals.configs.words import words

_SUFFIXES: Final = (".yaml", ".yml", ".json", ".jsonc", ".toml")
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
_KIND_LINE: Final = re.compile(r"^kind:[ \t]*[\"']?(\w+)", re.MULTILINE)
_API_LINE: Final = re.compile(r"^apiVersion:[ \t]*\S", re.MULTILINE)


_SKIPPED: Final = words(
    """__pycache__ node_modules site-packages dist-packages venv env wandb mlruns lightning_logs outputs build
    dist checkpoints"""
)
"""Folders of what tools wrote. A run's output holds copies of its configs, and they are not to be edited."""
_MOST: Final = 20_000
"""Files that a walk looks at by name."""


def find_configs(folder: str | os.PathLike[str]) -> list[Path]:
    """Training configs in a folder, by content, in order of name. Links to folders are not followed."""
    return [path for path in _candidates(Path(folder)) if looks_like_config(path) is not None]


def _candidates(folder: Path) -> Iterator[Path]:
    seen = 0
    for here, folders, files in os.walk(folder, onerror=None, followlinks=False):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith((".", "checkpoint-")) and name not in _SKIPPED
            and not os.path.exists(os.path.join(here, name, "pyvenv.cfg"))
        )  # fmt: skip
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
        kind = parse(name, decode(raw)[0]).kind
    except UnreadConfig:
        return None
    return kind if kind.trains else None


def looks_like_kubernetes_job(path: str | os.PathLike[str]) -> bool:
    """Whether a YAML or JSON file is a manifest that runs something. Never raises; templates count."""
    raw = _head(os.fspath(path), _LARGEST)
    if raw is None or b"apiVersion" not in raw:
        return False
    text = raw.decode("utf-8", "replace").replace("\r\n", "\n")
    if text.lstrip()[:1] == "{":
        try:
            file = parse(os.fspath(path) + ".json", text)
        except UnreadConfig:
            return False
        return file.kind is ConfigKind.KUBERNETES and file.value("kind") in _JOB_KINDS
    for document in re.split(r"^---", text, flags=re.MULTILINE):
        kind = _KIND_LINE.search(document)
        if kind is not None and kind[1] in _JOB_KINDS and _API_LINE.search(document):
            return True
    return False


def _head(path: str, size: int) -> bytes | None:
    """The file's first bytes, one more than asked for when there are more; None when it cannot be read."""
    try:
        return read_head(path, size + 1)
    except OSError:
        return None
