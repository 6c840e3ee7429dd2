"""What somebody meant who gave `gpudoctor check` a command in place of files."""

import os
import shlex
from collections.abc import Sequence


def meant_instead(words: Sequence[str]) -> str:
    """What to type, as a sentence; "" where the words after `gpudoctor check` hold no command."""
    for place, word in enumerate(words):
        if word.startswith("-") or os.path.isfile(word):
            if word.endswith(".py") and (rest := words[place + 1 :]):
                return _arguments(word, rest)
            continue
        if found := _command(words[place:]):
            return found
    return ""


def starts_a_command(words: Sequence[str]) -> bool:
    """Whether the first word is a launcher or an interpreter, and no file or folder of that name is there."""
    return bool(words) and not os.path.exists(words[0]) and bool(_command(words))


def _command(words: Sequence[str]) -> str:
    from gpudoctor.vitals.job.launch import find_launch

    found = None if words[0].endswith((".py", ".sh", ".bash", ".sbatch")) else find_launch(words)
    script = found and (found.script or found.shell_script or _module_file(found.module))
    if not found or not script:
        return ""
    run = shlex.join(("gpudoctor", "run", "--", *words))
    check = shlex.join(("gpudoctor", "check", script, *(("--", *found.arguments) if found.arguments else ())))
    return f"check takes files, not a command; examine the script: `{check}`, or run the command: `{run}`"


def _module_file(module: str | None) -> str | None:
    """The file that `python -m` starts, where it lies below this folder, else where it would."""
    if not module:
        return None
    path = module.replace(".", "/")
    return f"{path}/__main__.py" if os.path.isfile(f"{path}/__main__.py") else f"{path}.py"


def _arguments(script: str, rest: Sequence[str]) -> str:
    check = shlex.join(("gpudoctor", "check", script, "--", *rest))
    return f"put the arguments of {script} after --: `{check}`"
