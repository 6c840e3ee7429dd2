"""The model and the configs that `estimate` is given: a name, a config.json, numbers, files of a job."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpudoctor.errors import UsageError
from gpudoctor.estimate import from_numbers, lookup
from gpudoctor.estimate.find import FoundModel, find_cached, find_path, is_path, parse_config
from gpudoctor.estimate.shapes import ModelShape
from gpudoctor.lang import say
from gpudoctor.model.read_limits import CONFIG
from gpudoctor.vitals.memory.from_config import DeclaredJob, settle

if TYPE_CHECKING:
    from gpudoctor.model.signs.configs import ConfigFile

__all__ = ["DeclaredJob", "read_job", "settle"]

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_PATIENCE = 4.0
"""Seconds that the hub may take."""


def find_model(name: str | None, numbers: Mapping[str, int]) -> FoundModel:
    """The model that was asked for. Raises `UsageError`, with the nearest names, for what is none."""
    if name is None:
        shape, said = from_numbers(numbers)
        return FoundModel(shape=shape, assumptions=(said,) if said else ())
    if {"hidden", "layers"} <= numbers.keys():  # the numbers are the model, the name is what it is called
        shape, said = from_numbers(numbers)
        return FoundModel(shape=replace(shape, name=name), assumptions=(said,) if said else ())
    if numbers:
        given = "intermediate" if "mlp" in numbers else next(iter(numbers))
        raise UsageError(
            "--model and {given} are both given: give a model's name, or hidden and layers of its own", given=given
        )
    if not name.strip() or "\0" in name:
        raise UsageError("--model is empty; give a size (7b), a family and size (llama-3-8b) or a config.json")
    if is_path(name):
        return find_path(name)
    if _HUB_ID.fullmatch(name):
        return _from_hub(name)
    found = lookup(name)
    return FoundModel(shape=found.preset.shape, assumptions=(found.assumption,) if found.assumption else ())


def few_positions(shape: ModelShape, fields: dict[str, Any]) -> list[str]:
    """The sequence of a model that has few positions, where none was named, and the sentence about it."""
    longest = shape.max_positions
    if "seq" in fields or not longest or (shape.kind != "vision" and (shape.positions != "learned" or longest >= 2048)):
        return []
    fields["seq"] = longest
    return [say("sequence {longest}, the most that {name} has positions for", longest=longest, name=shape.name)]


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
        raise UsageError(
            "{name}: not among the known models, and {why} ({unknown})", name=name, why=why, unknown=unknown
        )
    said = say("{assumption}: {why}", assumption=known.assumption, why=why)
    return FoundModel(shape=known.preset.shape, assumptions=(said,))


def _download(name: str) -> tuple[bytes | None, str]:
    """The config.json from the hub, or None and why not."""
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in {"1", "true", "yes", "on"}:
        return None, say("HF_HUB_OFFLINE forbids access to the hub")
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
            return None, say(
                "the hub gives no config.json for it (HTTP {code}: misspelt, gated or private)", code=error.code
            )
        return None, say("the hub answered HTTP {code}", code=error.code)
    except (OSError, ValueError, http.client.HTTPException):
        return None, say("the hub cannot be reached from here; give a local config.json instead")
    return (raw, "") if len(raw) <= CONFIG.most else (None, say("its config.json is too large"))


# The training configs that `estimate` is given: files read one after the other into one job.


def read_job(targets: Sequence[str]) -> DeclaredJob:
    """The job that training configs describe together; a later one wins. `UsageError` for what is none.

    With a script among them it is read as `check` reads it.
    """
    if any(target.endswith((".py", ".ipynb")) for target in targets):
        return _read_scripts(targets)
    told = DeclaredJob()
    for target in targets:
        if not os.path.isfile(target):
            raise UsageError("{target}: no such file; name a training config, or a model with --model", target=target)
        file = _add(target, told)
        _follow_deepspeed(file, target, told)
    return told


def _read_scripts(targets: Sequence[str]) -> DeclaredJob:
    from gpudoctor.vitals.build_patient import PatientRequest, admit
    from gpudoctor.vitals.memory.jobs import jobs_of
    from gpudoctor.vitals.targets import sort_targets

    jobs = jobs_of(admit(PatientRequest(targets=sort_targets(targets))))
    if not jobs.found:
        reason = jobs.reasons[0] if jobs.reasons else say("no training of a known model was found in it")
        raise UsageError("{targets}: {reason}; give a config or --model 7b", targets=", ".join(targets), reason=reason)
    return jobs.found[0].told


def _add(path: str, told: DeclaredJob) -> "ConfigFile":
    from gpudoctor.vitals.configs.config_text import UnreadConfig, read_text
    from gpudoctor.vitals.configs.reading import parse
    from gpudoctor.vitals.memory.from_config import read_config

    try:
        file = parse(path, read_text(path))
    except UnreadConfig as error:
        raise UsageError("{path}: {error}", path=path, error=error) from None
    read_config(file, told, placed=False)
    return file


def _follow_deepspeed(file: "ConfigFile", target: str, told: DeclaredJob) -> None:
    """A DeepSpeed config that the file names and that is there."""
    said = file.meaning("deepspeed_config")
    named = said[-1].value if said else None
    if not isinstance(named, str) or not named.endswith(".json"):
        return
    for path in (named, os.path.join(os.path.dirname(target), named)):
        if os.path.isfile(path):
            _add(path, told)
            return
    told.assumptions.append(
        say("{named}, named by {target}, does not exist: ZeRO is not counted", named=named, target=target)
    )
