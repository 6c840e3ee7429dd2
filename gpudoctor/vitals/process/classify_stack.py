"""From one stack to the phase of the loop that it stands in, and the user's line that it stands at."""

import os
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from gpudoctor.model.external_files import read_text
from gpudoctor.model.read_limits import SCRIPT
from gpudoctor.model.records import frozen
from gpudoctor.model.redaction import mask_cut
from gpudoctor.model.signs.process import Frame
from gpudoctor.vitals.process.stack_classes import EVALUATION_NAMES, TABLE, WORKER_LOOP, StackClass

# What a line of the user's source does that leaves no frame: reads of tensors, moves, prints, waits.

_MOST_FILES = 64


@frozen(kw_only=False)
class LineClass:
    """One row: a pattern in a source line and what time at that line is."""

    kind: str
    phase: str
    pattern: "re.Pattern[str]"
    device_only: bool = False
    """Whether it tells something only where the process uses a GPU: `float(x)` may convert anything."""


_READ = r"\.(item|tolist|numpy)\s*\(\s*\)|\.cpu\s*\(\s*\)"
_MOVE = r"\.(to|cuda)\s*\(\s*(device|['\"]cuda|self\.device|args\.device|local_rank|rank|non_blocking|\))"
_TEST = (
    r"\b(float|int|bool)\s*\(|^\s*(el)?if\b|^\s*while\b|\bassert\b|\.any\(|\.all\(|"
    r"\bisnan\b|\bisfinite\b|\bnonzero\b|\bunique\b"
)
_SYNCHRONIZE = r"\b(cuda|accelerator|stream\w*|event\w*)\.synchronize\s*\("
LINES = (
    LineClass("sleep", "other", re.compile(r"\bsleep\s*\(")),
    LineClass("gc", "sync", re.compile(r"\bgc\.collect\s*\(")),
    LineClass("empty-cache", "sync", re.compile(r"\bempty_cache\s*\(")),
    LineClass("synchronize", "sync", re.compile(_SYNCHRONIZE)),
    LineClass("read", "sync", re.compile(_READ)),
    LineClass("move", "transfer", re.compile(_MOVE), True),
    LineClass("print", "logging", re.compile(r"\bprint\s*\(|\.(write|flush)\s*\(|\bfsync\s*\(")),
    LineClass("read", "sync", re.compile(_TEST), True),
)
"""What a line says, first match."""


def line_class(text: str, device: bool) -> LineClass | None:
    """What time spent in C code below this line is; None when the line does not say."""
    return next((row for row in LINES if (device or not row.device_only) and row.pattern.search(text)), None)


class SourceLines:
    """Lines of the watched process's files, each file read once."""

    def __init__(self, started: float, root: str = "", cwd: str = "") -> None:
        self._started = started
        self._root, self._cwd = root, cwd
        self._files: dict[str, list[str]] = {}

    def text(self, path: str, line: int) -> str:
        """The line, stripped; "" where it cannot be read."""
        if path not in self._files and len(self._files) < _MOST_FILES:
            self._files[path] = self._read(path)
        lines = self._files.get(path, [])
        return mask_cut(lines[line - 1].strip(), 200) if 0 < line <= len(lines) else ""

    def _read(self, path: str) -> list[str]:
        if not path or path.startswith("<"):
            return []
        try:
            real = self._root + (path if os.path.isabs(path) else os.path.join(self._cwd, path))
            state = os.stat(real)
            if state.st_mtime > self._started + 1.0:
                return []  # it changed after the process had started: its lines are not what runs
            return read_text(real, SCRIPT, "replace").splitlines()
        except (OSError, ValueError):
            return []


Lines = Callable[[str, int], str]
"""How a line's text is looked up: a path and a 1-based line."""


_EVALUATION = re.compile(EVALUATION_NAMES)
_LIBRARY = re.compile(r"/(site|dist)-packages/|/lib(64)?/python\d[\d.]*/|^<frozen |\.zip/")
_PYTHON = re.compile(r"/lib(64)?/python\d[\d.]*/(?!site-packages|dist-packages)|^<frozen ")
_FRAMEWORKS = re.compile(
    r"/(torch|torchvision|torchaudio|transformers|accelerate|peft|trl|deepspeed|lightning|pytorch_lightning|datasets|"
    r"lightning_fabric|numpy|PIL|tqdm|wandb|mlflow|sklearn|pandas|triton|bitsandbytes|safetensors|tokenizers|fvcore|"
    r"gpudoctor)/"
)
_ENTRIES = ("<module>", "_run_module_as_main", "_bootstrap")
_USER_EVALUATION = StackClass("evaluate", "evaluation", (), (), ("*",))
_OTHER = StackClass("other", "other", ())


@frozen
class ClassifiedStack:
    """What one stack says."""

    phase: str
    kind: str
    via: str
    """The library's function that decided; "" for the user's own line."""
    user: Frame | None
    """The innermost frame of the user's code."""
    text: str


def is_library(path: str) -> bool:
    """Whether a file is Python's or an installed package's."""
    return _LIBRARY.search(path) is not None


def whole(frames: Sequence[Frame]) -> bool:
    """Whether a main thread's stack (innermost first) was read to its end, and not cut by a race."""
    return bool(frames) and last_part(frames[-1].name) in _ENTRIES


def is_worker(frames: Sequence[Frame]) -> bool:
    """Whether the stack is a loader worker's."""
    path, name = WORKER_LOOP
    return any(last_part(frame.name) == name and path in frame.path for frame in frames)


def classify(frames: Sequence[Frame], lines: Lines, device: bool) -> ClassifiedStack:
    """Judge one stack, innermost frame first. `device`: whether the process uses a GPU.

    The innermost row that matches wins, unless an outer one keeps its phase (`StackClass.keeps`).
    """
    row, frame = _OTHER, None
    for one in reversed(frames):
        match = _match(one.path, last_part(one.name))
        if match is not None and not _kept(row, match.phase):
            row, frame = match, one
    user = _user_frame(frames)
    if row.kind == "import" and user is not None and frame is not None and user.name != "<module>":
        # A trainer that runs while its module is imported (`import main`) is not starting any more.
        row = row if frames.index(user) > frames.index(frame) else _OTHER
    text = lines(user.path, user.line) if user else ""
    if user is not None and frames[0] is user and not _kept(row, "sync"):
        said = line_class(text, device)
        if said is not None and not _kept(row, said.phase):
            return ClassifiedStack(phase=said.phase, kind=said.kind, via="", user=user, text=text)
    if row is _OTHER:
        kind = "user" if user is not None and frames and frames[0] is user else "library"
        return ClassifiedStack(phase="other", kind=kind, via=_via(frames, user), user=user, text=text)
    via = "" if frame is None or frame is user else _name(frame)
    return ClassifiedStack(phase=row.phase, kind=row.kind, via=via, user=user, text=text)


def _kept(row: StackClass, phase: str) -> bool:
    return "*" in row.keeps or phase in row.keeps


@lru_cache(maxsize=8192)
def _match(path: str, name: str) -> StackClass | None:
    """The first row of the table that a frame matches."""
    if name == "<module>":  # a library's module that is being imported is not at its work
        return None
    for row in TABLE:
        if any(part in path for part in row.paths) and (
            not row.names
            or any(name.startswith(wanted[:-1]) if wanted.endswith("*") else name == wanted for wanted in row.names)
        ):
            return row
    if _EVALUATION.fullmatch(name) and not _LIBRARY.search(path):
        return _USER_EVALUATION
    return None


@lru_cache(maxsize=8192)
def last_part(name: str) -> str:
    """`__next__` of `_BaseDataLoaderIter.__next__`; names are bare before Python 3.11."""
    return name.rpartition(".")[2]


def _user_frame(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame of the user's code; of a trainer installed as a package when there is no other."""
    for frame in frames:
        if not _LIBRARY.search(frame.path) and not frame.path.startswith("<"):
            return frame
    for frame in frames:
        if not _PYTHON.search(frame.path) and not _FRAMEWORKS.search(frame.path) and not frame.path.startswith("<"):
            return frame
    return None


def _via(frames: Sequence[Frame], user: Frame | None) -> str:
    """The outermost library function that the user's line called."""
    called = ""
    for frame in frames:
        if frame is user:
            break
        called = _name(frame)
    return called


def _name(frame: Frame) -> str:
    """`torch.save` for readers: the module's short name and the function."""
    module = frame.path.rpartition("/")[2].removesuffix(".py")
    if module == "__init__":
        module = frame.path.rpartition("/")[0].rpartition("/")[2]
    return f"{module}.{last_part(frame.name)}"
