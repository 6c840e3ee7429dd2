"""A model by a local config.json, its folder, or Hugging Face's cache; nothing here touches the network."""

import os
from collections.abc import Mapping
from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.estimate.config_json import shape_of_config
from gpudoctor.estimate.shapes import ModelShape
from gpudoctor.model.external_files import load_json, read_file
from gpudoctor.model.read_limits import CONFIG
from gpudoctor.model.records import frozen


@frozen
class FoundModel:
    """The model, and what was assumed to find it."""

    shape: ModelShape
    assumptions: tuple[str, ...] = ()
    config: Mapping[str, Any] | None = None
    """The object of its config.json, where it has one; None for a known model or plain numbers."""
    quantized: str | None = None
    """How its checkpoint is quantized already (`gptq`, `awq`, `bitsandbytes`...); None where it is not."""


def is_path(name: str) -> bool:
    """Whether a model's name is meant as a file or folder; a folder `7b` without a config is not."""
    if name.endswith(".json") or name.startswith((".", "/", "~")) or os.path.isfile(name):
        return True
    return os.path.exists(os.path.join(name, "config.json"))


def find_path(path: str) -> FoundModel:
    """The model of a config.json, or of the folder that holds one. Raises `UsageError`."""
    path = os.path.expanduser(path)
    if os.path.isdir(path):
        inside = os.path.join(path, "config.json")
        if not os.path.isfile(inside):
            raise UsageError(
                "{path}: no config.json in this folder; name the folder of a transformers model", path=path
            )
        path = inside
    return parse_config(_read(path), path)


def _read(path: str) -> bytes:
    try:
        return read_file(path, CONFIG)
    except FileNotFoundError:
        raise UsageError("{path}: no such file; give a config.json, its folder, or a model's name", path=path) from None
    except OSError as error:
        raise UsageError("{path}: cannot be read: {reason}", path=path, reason=error.strerror or error) from None


def parse_config(raw: bytes, name: str) -> FoundModel:
    """The model of a config.json's text. Raises `UsageError`."""
    try:
        config = load_json(raw.decode("utf-8-sig"))
    except ValueError as error:
        raise UsageError("{name}: not valid JSON: {error}", name=name, error=error) from None
    if not isinstance(config, dict):
        raise UsageError("{name}: not the config.json of a model: an object was expected", name=name)
    shape, notes = shape_of_config(config, name)
    quantization = config.get("quantization_config")
    method = quantization.get("quant_method", "other") if isinstance(quantization, dict) else None
    return FoundModel(shape=shape, assumptions=notes, config=config, quantized=str(method) if method else None)


def find_cached(name: str) -> str | None:
    """Path of the newest config.json of a hub model in Hugging Face's cache; None where it has none."""
    home = os.environ.get("HF_HUB_CACHE") or os.path.join(
        os.environ.get("HF_HOME") or os.path.expanduser("~/.cache/huggingface"), "hub"
    )
    snapshots = os.path.join(home, "models--" + name.replace("/", "--"), "snapshots")
    try:
        paths = [os.path.join(snapshots, entry, "config.json") for entry in os.listdir(snapshots)]
    except OSError:
        return None
    present = [path for path in paths if os.path.isfile(path)]
    return max(present, key=os.path.getmtime) if present else None
