"""The training configs that `estimate` is given: files read one after the other into one job."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpudoctor.errors import UsageError
from gpudoctor.vitals.memory.declared_job import DeclaredJob, settle

if TYPE_CHECKING:
    from gpudoctor.model.signs.configs import ConfigFile

__all__ = ["DeclaredJob", "read_job", "settle"]


def read_job(targets: Sequence[str]) -> DeclaredJob:
    """The job that training configs describe together; a later one wins. `UsageError` for what is none."""
    told = DeclaredJob()
    for target in targets:
        if target.endswith((".py", ".ipynb")):
            raise UsageError(
                f"{target} is a script; add --trace, which imports and runs it, or give a config or --model 7b"
            )
        if not os.path.isfile(target):
            raise UsageError(f"{target}: no such file; name a training config, or a model with --model")
        file = _add(target, told)
        _follow_deepspeed(file, target, told)
    return told


def _add(path: str, told: DeclaredJob) -> "ConfigFile":
    from gpudoctor.vitals.configs import UnreadConfig, parse
    from gpudoctor.vitals.configs.text import read_text
    from gpudoctor.vitals.memory.from_config import read_config

    try:
        text, notes = read_text(path)
        file = parse(path, text, notes)
    except UnreadConfig as error:
        raise UsageError(f"{path}: {error}") from None
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
    told.assumptions.append(f"{named}, named by {target}, does not exist: ZeRO is not counted")
