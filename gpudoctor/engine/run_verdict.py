"""The verdict on a run: whether anybody reported, how it died, or what it is well with."""

import re
from collections.abc import Sequence
from pathlib import PurePath

from gpudoctor.model.signs.recording import Recording, RunEnd

_WALLS = {
    "docker": "the probe does not get into a container that docker starts: install gpudoctor in its image and "
    "put `gpudoctor run --` inside",
    "ssh": "the probe does not reach another machine: put `gpudoctor run --` after ssh",
    "sudo": "sudo clears the environment that carries the probe: put `gpudoctor run --` after sudo",
    "env": "a cleared environment carries no probe: put `gpudoctor run --` after env",
    "python": "Python's flags -I, -E and -S keep the probe out: leave them away for this run",
}
_KIN = {"podman": "docker", "nerdctl": "docker", "kubectl": "docker", "apptainer": "docker",
        "singularity": "docker", "doas": "sudo", "su": "sudo"}  # fmt: skip
_NOT_SEEN = "no process of the command imported torch where the probe could see it"


def nobody_reported(recording: Recording) -> str:
    """The verdict on a run of which no rank has reported: never healthy."""
    why = _wall(recording.command) or _NOT_SEEN
    died = death(recording.end)
    ended = f" The command {died}." if died else ""
    return f"No rank reported, so nothing can be said about the training: {why}.{ended}"


def death(end: RunEnd | None) -> str:
    """How a command that failed ended, a clause without its subject; "" for one that did not."""
    if end is None or not end.failed:
        return ""
    if end.signal is None:
        return f"ended with exit code {end.exit_code}"
    killed = f"was killed by {end.signal}"
    return f"{killed}: its memory limit was reached" if end.oom_kills and end.signal == "SIGKILL" else killed


def _wall(command: Sequence[str]) -> str:
    """What kept the probe out, where the command line shows it."""
    for place, word in enumerate(command):
        name = PurePath(word).name
        name = _KIN.get(name, name)
        if name in ("docker", "ssh", "sudo") and place == 0:
            return _WALLS[name]
        if name == "env" and _has_flag(command[place + 1 :], "i", long=("--ignore-environment", "-")):
            return _WALLS["env"]
        if re.fullmatch(r"(python|pypy)[\d.]*", name) and _has_flag(command[place + 1 :], "IES"):
            return _WALLS["python"]
    return ""


def _has_flag(words: Sequence[str], letters: str, long: Sequence[str] = ()) -> bool:
    """Whether one of the flags before the first word that is none has one of these letters."""
    for word in words:
        if word in long:
            return True
        if not word.startswith("-") or word.startswith("--"):
            return False
        flags = re.split(r"[WXcm]", word[1:])[0]  # what follows such a letter is its value
        if set(letters) & set(flags):
            return True
    return False
