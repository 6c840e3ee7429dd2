"""From what `--model` says to a shape: a name, a config.json or its folder, a hub id, or plain numbers."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.estimate import ModelShape, from_numbers, lookup

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_LARGEST = 4 << 20
"""Bytes of a config.json beyond which it is something else."""
_PATIENCE = 4.0
"""Seconds that the hub may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The model, and what was assumed to find it."""

    shape: ModelShape
    """Its shape."""
    assumptions: tuple[str, ...] = ()
    """A sentence each."""
    quantized: str | None = None
    """How its checkpoint is quantized already (`gptq`, `awq`, `bitsandbytes`...); None where it is not."""


def find_model(name: str | None, numbers: Mapping[str, int]) -> Found:
    """The model that was asked for. Raises `UsageError`, with the nearest names, for what is none."""
    if name is None:
        shape, said = from_numbers(numbers)
        return Found(shape=shape, assumptions=(said,) if said else ())
    if numbers:
        given = "intermediate" if "mlp" in numbers else next(iter(numbers)).replace("_", "-")
        raise UsageError(f"--model and --{given} are both given: give a model's name or its numbers")
    if not name.strip() or "\0" in name:
        raise UsageError("--model is empty; give a size (7b), a family and size (llama-3-8b) or a config.json")
    if os.path.exists(name) or name.endswith(".json") or name.startswith((".", "/", "~")):
        return _from_path(os.path.expanduser(name))
    if _HUB_ID.fullmatch(name):
        return _from_hub(name)
    found = lookup(name)
    return Found(shape=found.preset.shape, assumptions=(found.assumption,) if found.assumption else ())


def _from_path(path: str) -> Found:
    """A config.json, or the folder that holds one."""
    if os.path.isdir(path):
        inside = os.path.join(path, "config.json")
        if os.path.exists(os.path.join(path, "model_index.json")):
            raise UsageError(
                f"{path}: the folder of a diffusers pipeline (model_index.json); estimate knows "
                f"transformers of text and images, or plain numbers: --hidden, --layers"
            )
        if not os.path.isfile(inside):
            raise UsageError(f"{path}: no config.json in this folder; name the folder of a transformers model")
        path = inside
    return _from_config(_read_json(path), path)


def _read_json(path: str) -> Any:
    try:
        with open(path, "rb") as stream:
            raw = stream.read(_LARGEST + 1)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file; give a config.json, its folder, or a model's name") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(raw) > _LARGEST:
        raise UsageError(f"{path}: larger than any config.json ({_LARGEST >> 20} MiB); is it the weights?")
    return _parsed(raw, path)


def _parsed(raw: bytes, name: str) -> Any:
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UsageError(f"{name}: not UTF-8 text; is it the config.json of a transformers model?") from None
    except RecursionError:
        raise UsageError(f"{name}: nested too deeply for a config.json") from None
    except ValueError as error:
        raise UsageError(f"{name}: not valid JSON: {error}") from None


def _from_config(config: Any, name: str) -> Found:
    from gpudoctor.estimate.config_json import shape_of_config

    if not isinstance(config, dict):
        raise UsageError(f"{name}: not the config.json of a model: an object was expected")
    shape, notes = shape_of_config(config, name)
    quantization = config.get("quantization_config")
    method = quantization.get("quant_method", "other") if isinstance(quantization, dict) else None
    return Found(shape=shape, assumptions=notes, quantized=str(method) if method else None)


def _from_hub(name: str) -> Found:
    """A hub id: a known model first, then the local cache, then the hub (its config.json and nothing else)."""
    try:
        known = lookup(name)
    except UsageError as error:
        known, unknown = None, error
    if known is not None and not known.assumption:
        return Found(shape=known.preset.shape)
    cached = _cached(name)
    if cached is not None:
        found = _from_path(cached)
        return Found(shape=_named(found.shape, name), assumptions=found.assumptions, quantized=found.quantized)
    raw, why = _download(name)
    if raw is not None:
        return _from_config(_parsed(raw, name), name)
    if known is None:
        raise UsageError(f"{name}: not among the known models, and {why} ({unknown})")
    said = f"{known.assumption}: {why}"
    return Found(shape=known.preset.shape, assumptions=(said,))


def _named(shape: ModelShape, name: str) -> ModelShape:
    from dataclasses import replace

    return replace(shape, name=name)


def _cached(name: str) -> str | None:
    """The newest config.json of this model in Hugging Face's cache."""
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


def _download(name: str) -> tuple[bytes | None, str]:
    """The config.json from the hub, or None and why not."""
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in {"1", "true", "yes", "on"}:
        return None, "HF_HUB_OFFLINE forbids to ask the hub"
    import http.client
    import urllib.error
    import urllib.request

    base = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    request = urllib.request.Request(f"{base}/{name}/resolve/main/config.json")
    token = os.environ.get("HF_TOKEN")
    if token and token.isascii() and token.isprintable():
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
            raw = answer.read(_LARGEST + 1)
    except urllib.error.HTTPError as error:
        if error.code in {401, 403, 404}:
            return None, f"the hub shows no config.json of it (HTTP {error.code}: misspelt, gated or private)"
        return None, f"the hub answered HTTP {error.code}"
    except (OSError, ValueError, http.client.HTTPException):
        return None, "the hub cannot be reached from here; give a local config.json instead"
    return (raw, "") if len(raw) <= _LARGEST else (None, "its config.json is too large")
