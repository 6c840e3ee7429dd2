"""Command-line options of launchers, read without their parsers."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

_PYTHON = re.compile(r"(?:python|pypy)(?:\d+(?:\.\d+)*)?(?:\.exe)?")
_PROGRAMS = frozenset({"torchrun", "accelerate", "deepspeed", "srun", "mpirun", "mpiexec", "horovodrun", "bash", "sh"})

_FLAG_NAMES = """
    standalone no_python no-python run_path run-path use_env use-env
    cpu multi_gpu multi-gpu tpu use_mps_device quiet debug use_deepspeed use-deepspeed use_fsdp use-fsdp
    use_megatron_lm use-megatron-lm use_parallelism_config same_network same-network enable_cpu_affinity
    dynamo_use_fullgraph dynamo_use_dynamic no_tpu_cluster ipex use_xpu
    no_local_rank enable_each_rank_log_off force_multi save_pid bind_cores_to_rank no_ssh no_ssh_check
    exclusive overlap label unbuffered pty verbose oversubscribe allow-run-as-root bind-to-core tag-output
    report-bindings nooversubscribe gloo mpi disable-cache contiguous propagate quit-on-interrupt multi-prog
    spread-job no-kill
    nv rocm cleanenv containall writable writable-tmpfs fakeroot no-home compat rm it interactive tty detach
    privileged init contain
"""
_FLAGS = frozenset(_FLAG_NAMES.split())
"""Long options without a value: torchrun, accelerate, deepspeed, srun and mpirun, containers.

An option that is in no list is judged by the word that follows.
"""


def is_python(name: str) -> bool:
    """Whether a program's name is a Python interpreter's."""
    return _PYTHON.fullmatch(name) is not None


class Options:
    """Options before the first word that is none, as a launcher's own parser would take them."""

    def __init__(self, words: Sequence[str], valued: str = "", flags: str = "", stop: bool = True) -> None:
        self.values: dict[str, str] = {}
        self.rest: list[str] = []
        with_value = set(valued.split())
        without = set(flags.split()) | _FLAGS
        at = 0
        while at < len(words):
            word = words[at]
            if word == "--":
                at += 1
                break
            if not word.startswith("-") or word == "-":
                break
            key, equals, value = word.partition("=")
            bare = key.lstrip("-")
            at += 1
            if equals:
                self.values[bare.replace("_", "-")] = value
            elif self._takes(word, bare, with_value, without, words[at : at + 1]):
                self.values[bare.replace("_", "-")] = words[at] if at < len(words) else ""
                at += 1
            elif not word.startswith("--") and len(word) > 2 and word[1] in with_value and word[1:] not in without:
                self.values[word[1]] = word[2:]
            else:
                self.values[bare.replace("_", "-")] = ""
            if stop and bare == "m":
                break
        self.rest = list(words[at:])

    @staticmethod
    def _takes(word: str, bare: str, valued: set[str], flags: set[str], following: Sequence[str]) -> bool:
        """Whether the option takes the next word as its value."""
        if bare in valued or bare.replace("-", "_") in valued or bare.replace("_", "-") in valued:
            return True
        if bare in flags or not word.startswith("--") or not following:
            return False
        name = PurePosixPath(following[0]).name
        starts = name.endswith((".py", ".sh")) or is_python(name) or name in _PROGRAMS
        return not starts and not following[0].startswith("-")

    def get(self, *names: str) -> str | None:
        """The value of the first of these options that is given."""
        return next((self.values[name] for name in names if name in self.values), None)

    def number(self, *names: str) -> int | None:
        """The same as a whole number; `2:4` and `2-4` count as their lower end."""
        return whole(self.get(*names))

    def given(self, *names: str) -> bool:
        """Whether one of these options is given."""
        return any(name in self.values for name in names)


def whole(text: str | None) -> int | None:
    """A leading whole number of a text, or None."""
    match = re.match(r"\s*(\d{1,9})\b", text or "")
    return int(match[1]) if match else None
