"""From what `--model` says to a shape: a name, a config.json or its folder, a hub id, or plain numbers."""

import os
import re
from collections.abc import Mapping
from dataclasses import replace

from gpudoctor.errors import UsageError
from gpudoctor.estimate import from_numbers, lookup
from gpudoctor.estimate.find import FoundModel, find_cached, find_path, is_path, parse_config
from gpudoctor.model.read_limits import CONFIG

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_PATIENCE = 4.0
"""Seconds that the hub may take."""


def find_model(name: str | None, numbers: Mapping[str, int]) -> FoundModel:
    """The model that was asked for. Raises `UsageError`, with the nearest names, for what is none."""
    if name is None:
        shape, said = from_numbers(numbers)
        return FoundModel(shape=shape, assumptions=(said,) if said else ())
    if numbers:
        given = "intermediate" if "mlp" in numbers else next(iter(numbers)).replace("_", "-")
        raise UsageError(f"--model and --{given} are both given: give a model's name or its numbers")
    if not name.strip() or "\0" in name:
        raise UsageError("--model is empty; give a size (7b), a family and size (llama-3-8b) or a config.json")
    if is_path(name):
        return find_path(name)
    if _HUB_ID.fullmatch(name):
        return _from_hub(name)
    found = lookup(name)
    return FoundModel(shape=found.preset.shape, assumptions=(found.assumption,) if found.assumption else ())


def _from_hub(name: str) -> FoundModel:
    """A hub id: a known model first, then the local cache, then the hub (its config.json and nothing else)."""
    try:
        known = lookup(name)
    except UsageError as error:
        known, unknown = None, error
    if known is not None and not known.assumption:
        return FoundModel(shape=known.preset.shape)
    cached = find_cached(name)
    if cached is not None:
        found = find_path(cached)
        return replace(found, shape=replace(found.shape, name=name))
    raw, why = _download(name)
    if raw is not None:
        return parse_config(raw, name)
    if known is None:
        raise UsageError(f"{name}: not among the known models, and {why} ({unknown})")
    said = f"{known.assumption}: {why}"
    return FoundModel(shape=known.preset.shape, assumptions=(said,))


def _download(name: str) -> tuple[bytes | None, str]:
    """The config.json from the hub, or None and why not."""
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in {"1", "true", "yes", "on"}:
        return None, "HF_HUB_OFFLINE forbids access to the hub"
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
            raw = answer.read(CONFIG.most + 1)
    except urllib.error.HTTPError as error:
        if error.code in {401, 403, 404}:
            return None, f"the hub gives no config.json for it (HTTP {error.code}: misspelt, gated or private)"
        return None, f"the hub answered HTTP {error.code}"
    except (OSError, ValueError, http.client.HTTPException):
        return None, "the hub cannot be reached from here; give a local config.json instead"
    return (raw, "") if len(raw) <= CONFIG.most else (None, "its config.json is too large")
