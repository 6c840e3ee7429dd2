"""Changes that the user names: values of an override or an argument, or another command."""

import os
import shlex
import shutil
from collections.abc import Sequence
from difflib import get_close_matches

from gpudoctor.errors import UsageError
from gpudoctor.lang import say
from gpudoctor.trial.override_table import OVERRIDES, is_known, value_of
from gpudoctor.trial.trial_runner import Arm

_MOST = 12
"""Values of one `--vary`: each takes several runs."""
AGAINST = "against"


def varied(text: str, command: Sequence[str]) -> list[tuple[str, Arm]]:
    """Titles and arms of `KEY=V1,V2,...`. Raises `UsageError`.

    KEY is an argument of the command (with its dashes or without, or Hydra's `key=value`), or an override.
    """
    key, given, values = text.partition("=")
    listed = [value.strip() for value in values.split(",") if value.strip()]
    if not key.strip() or not given or not listed:
        raise UsageError(say("--vary {text}: write KEY=V1,V2: --vary batch-size=8,16", text=text))
    if len(listed) > _MOST:
        raise UsageError(
            say("--vary {text}: {number} values; give at most {most}", text=text, number=len(listed), most=_MOST)
        )
    return [(f"{key}={value}", with_value(key.strip(), value, command)) for value in listed]


def with_value(key: str, value: str, command: Sequence[str]) -> Arm:
    """The arm of one value. Raises `UsageError` for a key that is none of these."""
    name = f"{key}={value}"
    flag = _flag(key, command)
    if flag is not None:
        return Arm(name=name, arguments={flag: value})
    if key.startswith("env."):
        return Arm(name=name, environment={key.removeprefix("env."): value})
    if is_known(key):
        try:
            return Arm(name=name, overrides={key: value_of(key, value)})
        except ValueError as error:
            raise UsageError(say("{name}: {error}", name=name, error=error)) from None
    if "." not in key:
        return Arm(name=name, arguments={f"--{key}": value})
    known = sorted(OVERRIDES)
    near = get_close_matches(key, known, n=3, cutoff=0.7)
    hint = (
        say("did you mean {near}?", near=" or ".join(near))
        if near
        else say("the overrides: {known}", known=", ".join(known))
    )
    raise UsageError(say("{key} is neither an argument of the command nor an override; {hint}", key=key, hint=hint))


def against(text: str) -> tuple[str, Arm]:
    """Title and arm of another command. Raises `UsageError` where it cannot be read."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(say("--against {text!r}: {error}", text=text, error=error)) from None
    if not words:
        raise UsageError("--against: no command was given; quote it: --against 'python other.py'")
    if shutil.which(words[0]) is None:
        raise UsageError(say("--against: {words}: command not found", words=words[0]))
    interpreter = os.path.basename(words[0]).startswith("python")
    if interpreter and words[1:] and words[1].endswith(".py") and not os.path.exists(words[1]):
        raise UsageError(say("--against: {words}: no such file", words=words[1]))
    return text, Arm(name=AGAINST, command=tuple(words))


def _flag(key: str, command: Sequence[str]) -> str | None:
    """The argument as the command spells it; None where it has none by that name."""
    spellings = (
        [key] if key.startswith("-") else [f"--{key}", f"--{key.replace('_', '-')}", f"--{key.replace('-', '_')}"]
    )
    for word in command:
        for flag in (*spellings, key, f"+{key}", f"++{key}"):
            if (word == flag and flag.startswith("-")) or word.startswith(flag + "="):
                return flag
    return key if key.startswith("-") else None
