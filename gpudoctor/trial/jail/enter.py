"""Closes the door, becomes the command.

    python -I -S -c "import sys; sys.path.insert(0, ROOT); \
                     from gpudoctor.trial.jail.enter import main; main()" CONFIG COMMAND...

CONFIG is a JSON file: `how` is `mounts` or `landlock`, `edits` the file with what the run edits behind the door, the
rest is what that module asks for. Standard library only: it runs in every run of a trial, before the command. Exit
code 97: it could not be done, the reason is on standard error.
"""

import json
import os
import sys
from typing import Any

CANNOT = 97


def main() -> None:
    """Protect, then exec."""
    with open(sys.argv[1], encoding="utf-8") as stream:
        config: dict[str, Any] = json.load(stream)
    try:
        _protect(config)
    except OSError as error:
        sys.stderr.write(f"gpudoctor: {error}\n")
        os._exit(CANNOT)
    try:
        os.execvp(sys.argv[2], sys.argv[2:])
    except FileNotFoundError:
        sys.stderr.write(f"gpudoctor: {sys.argv[2]}: command not found\n")
        os._exit(127)
    except OSError as error:
        sys.stderr.write(f"gpudoctor: {sys.argv[2]}: {error}\n")
        os._exit(126)


def _protect(config: dict[str, Any]) -> None:
    if config["how"] == "landlock":
        from gpudoctor.trial.jail import landlock

        landlock.enter(config)
    else:
        from gpudoctor.trial.jail import covering

        covering.enter(config)
    if os.path.exists(config["edits"]):
        with open(config["edits"], encoding="utf-8") as stream:
            edits: list[tuple[str, str, str]] = json.load(stream)
        for _, path, text in edits:
            with open(path, "w", encoding="utf-8") as edited:
                edited.write(text)
