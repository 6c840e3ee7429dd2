"""Puts tracebacks together that several processes may have written into each other.

Python's own, those of notebooks and of Rich, of loader workers and of chained exceptions. Each process (rank,
actor, node: `PrefixedLine.source`) has its own traceback open.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gpudoctor.model.signs.job_log import LogFrame
from gpudoctor.vitals.job_log.lines import HEADER, PrefixedLine, without_level
from gpudoctor.vitals.job_log.progress import has_result, step_of

_CHAIN = re.compile(
    r"^(?:During handling of the above exception, another exception occurred:|"
    r"The above exception was the direct cause of the following exception:)"
)
_WITHIN = re.compile(r"Original Traceback|^-- Process \d+ terminated with the following error|^'{3}|^\"{3}")
_FRAME = re.compile(r'^\s*File "([^"]{1,1000})", line (\d{1,8})(?:, in (.{1,200}))?$')
_NOTEBOOK_FRAME = re.compile(
    r"^\s*(?:File )?(?:(Cell In\s?\[\d+\])|(?:in )?(<ipython-input[^>]{1,80}>|[~/]\S{1,400}?))"
    r"(?:,? line (\d{1,8})|:(\d{1,8}))?,? in (?:<cell line: \d+>|(\S{1,120}))"
)
_RICH_FRAME = re.compile(r"^[│|]\s*(?:[❱>]\s*)?(\S{1,400}\.py):(\d{1,8}) in (\S{1,120})")
_NAME = r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*"
ENDINGS = (
    r"(?:Error|Exception|Exit|Interrupt|Timeout|Failure|Fault|Failed|Iteration|Aborted|Died|Refused|"
    r"Unavailable|Missing|NotFound|Invalid|Unsupported|Violation|Rejected)"
)
"""How names of exceptions end."""
_KNOWN = rf"(?:{ENDINGS}|Warning)"
_RAISED = re.compile(
    rf"^(?=[\w.]+[:(]|[\w.]+$)(?P<type>(?:{_NAME}{_KNOWN}\w*|(?:builtins\.)?Exception)(?:\(\w{{1,80}}\))?)"
    r"(?:: ?(?P<message>.*))?$",
    re.DOTALL,
)
_OWN_TYPE = re.compile(r"^(?P<type>(?:\w+\.)*[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+)(?:: (?P<message>.*))?$")
"""An exception whose name says nothing of an error: counted right behind a frame only."""
_BARE_TYPE = re.compile(
    r"^(?P<type>(?:\w+\.)*(?!(?:Killed|Terminated|Hangup|Done|Finished|Epoch|Step|Training|Validation|Evaluating|"
    r"Loading|Saving)$)[A-Z][a-z0-9]\w*)(?P<message>)$"
)
"""One word alone, without a message: counted right behind a frame only, if it is no usual word of a log."""
_DOTTED = re.compile(
    r"^(?P<type>(?:[a-z_]\w*\.)+(?:[A-Z]\w*|[a-z]*error)(?:\(\w{1,80}\))?): (?P<message>.*)$", re.DOTALL
)
_LOOSE = re.compile(
    rf"(?:^|[\s\]>:`]|\))(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*{_KNOWN}(?:\(\w{{1,80}}\))?): (?P<message>\S.*)$",
    re.DOTALL,
)
_OF_GO = re.compile(r"^.{0,60}\b\w+\.go:\d{1,5}\]? ")
"""What a service written in Go puts before its words, as the kubelet: its errors are not the job's."""
_NOT_WORDS = re.compile(
    r"\[[^\][]{0,80}\]|\([^()]{0,80}\)|(?:(?<!\S)|(?<=[\])]))[^\s:./_=\])]*[:./_=]\S+|\b[A-Z]+\b|"
    r"(?i:\b(?:error|exception|critical|fatal|raised)\b)"
)
"""What stands before an exception and says nothing: names of loggers, levels, places."""
_WORD = re.compile(r"[A-Za-z]{3}")
_PRINTED = re.compile(rf"^({_NAME}{_KNOWN})\((['\"])(.*)\2,?\)$")
_LIBRARY = re.compile(
    r"/(?:site|dist)-packages/|/lib(?:64)?/python\d|^<(?!ipython|string)|/bin/(?:torchrun|accelerate|deepspeed)$"
)
_PACKAGE = re.compile(r"/(?:(?:site|dist)-packages|python\d[\d.]*)/(.+)$")
_UNHEEDED = re.compile(
    r"^(?:Exception ignored in|Exception in thread|Error in atexit)|"
    r"\bException on /\S* \[[A-Z]{3,7}\]|\bException in ASGI application|\] raised unexpected: \w+\(|"
    r"^future: <Task finished |^--- Logging error ---"
)
"""What stands before a traceback that ended nothing: a destructor, a thread, a request, a task, logging."""
_OF_UNHEEDED = ("xception i", "xception on", "atexit", "unexpected", "<Task", "Logging")
"""Such a line has one of these: they are found much faster."""
OF_THREAD = "Exception in thread"
_AT_EXIT = ("Exception ignored in", "Error in atexit")
_OF_FINALIZERS = ("_run_finalizers", "_run_exitfuncs")
"""Functions of Python that print what a finalizer raises, and go on."""
LOST = ("future: ", "--- Logging error")
"""Of these: what ended nothing, whatever it names."""
_BETWEEN_UNHEEDED = 3
"""Lines between these words and the traceback."""
_OF_RAY = re.compile(r"RayTaskError\((\w+)\)$")
GOES_ON = re.compile(
    r"(?i)\b(?:skip(?:ping|ped)|ignor(?:ing|ed)|(?:fall(?:ing)?|fell)[ -]?back|re-?try(?:ing)?|"
    r"try(?:ing)? again|trying (?:with |the )?\w+|continuing|will not be (?:enabled|used)|disabl(?:ing|ed)|"
    r"left out|unavailable)\b"
)
"""Words of a program that goes on without what failed."""
_TAKES_ANOTHER = re.compile(
    r"[,;.] (?:so |thus |now )?(?:using|defaulting to|reverting to|switching to) [\w .'\"-]{1,60}$"
)
"""The end of a line in which a program says what it takes in the place of what failed."""
_NOT_OF_MESSAGE = re.compile(
    r"Call stack:$|wandb: |slurmstepd\b|(?:ssh|scp|rsync): |"
    r"s(?:run|batch|alloc): |docker: |=>> PBS: |[\w.-]{1,80} exited with code \d|"
    r" {0,4}(?:Normal|Warning) {1,12}[A-Z]\w{3,40} {2}|\S{1,300}:\d{1,7}: \w*Warning: "
)
"""What a tracker, the end of the interpreter and a scheduler print behind an exception."""
_OF_CELL = re.compile(r"(?:(?:Papermill|Cell)ExecutionError|CheckpointException)$")
"""Whose message holds the traceback of a notebook's cell, or of a rank."""
_EVALUATES = re.compile(
    r"_?(?:evaluat\w{1,20}|validate|validation_\w{1,20}|prediction_\w{1,20}|predict(?:_step)?|eval_step)"
)
"""Functions of an evaluation, the user's and those of transformers and Lightning."""
_INNERMOST = 12
_OF_FRAME = 2
"""Blanks before `File` in a traceback that is not indented."""
_MOST_LINES = 600
"""Lines of one traceback; a recursion's is folded by Python."""
_MOST_NOISE = 60
"""Lines between two parts of it that belong to something else."""
_MOST_TEXT = 4000
_SILENT = 15
"""Lines of other processes after which a message counts as ended."""
_MOST_OPEN = 4096
_MOST_MESSAGE_LINES = 60


@dataclass(slots=True)
class Raised:
    """An exception as its traceback ends, or as a line names it."""

    type: str
    text: str
    """Type and message, all lines."""
    line: int
    of: PrefixedLine
    frame: LogFrame | None = None
    """The innermost line of the user's."""
    libraries: tuple[str, ...] = ()
    """Files of libraries that the exception came through, below their folder of packages; outermost first."""
    announced: str = ""
    """What stands above that says that nothing ended by it: of a destructor, a thread, a request, a task, logging."""
    at_exit: bool = False
    """Raised in a destructor or while the interpreter ends."""
    quoted: bool = False
    """A message of the program quotes it."""
    before: str = ""
    """What the line that quotes it says before it."""
    level: str = ""
    """Of the logger that printed it: `warning` or less, `error`: the program had caught it."""
    of_script: bool = False
    """Whether its traceback begins at the module level of a script: nobody caught it, and its process ended."""
    by_hand: bool = False
    """Whether a `raise` raised it, which somebody wrote to say what is wrong."""
    of_library: bool = False
    """Whether a library's line raised it."""
    evaluating: bool = False
    """Whether it came through an evaluation: the bar above it counts that one's batches, and no steps."""


@dataclass(slots=True)
class _Open:
    announced: str = ""
    level: str = ""
    frames: list[LogFrame] = field(default_factory=list)
    chain: list[Raised] = field(default_factory=list)
    current: Raised | None = None
    noise: int = 0
    lines: int = 0
    message_lines: int = 0
    boxed: bool = False
    pending_code: bool = False
    of: PrefixedLine = field(default_factory=lambda: PrefixedLine(""))
    """The header."""
    indent: int = 0
    """Blanks before the header: a traceback may be pasted or printed with an indentation."""


class Tracebacks:
    """Takes lines in order, gives chains of exceptions when they are complete; each has its first exception first."""

    def __init__(self) -> None:
        self.open: dict[str, _Open] = {}
        """Tracebacks that are open, by their source: every line may belong to one. Always the same table."""
        self._announced: dict[str, tuple[str, int]] = {}
        self._first_open = 0
        """No exception that is open stands in a line before this one."""
        self.took = False
        """Whether the last line is a frame of a traceback, or its exception."""

    @property
    def inside(self) -> bool:
        """Whether a traceback is open whose exception is still to come."""
        return any(opened.current is None for opened in self.open.values())

    def waits_for(self, line: PrefixedLine) -> bool:
        """Whether a traceback is open that a line may belong to: one of its own rank, or of nobody known."""
        return line.source in self.open or (bool(self.open) and not line.source)

    def take(self, line: PrefixedLine, number: int, level: Callable[[], str]) -> list[list[Raised]]:
        """Chains that this line completes; `level` says of a header how it was logged."""
        done = [*self._stale(line.source, number), *self._take(line, number, level)]
        opened = self.open.get(line.source)
        if opened is not None and opened.current is not None:
            self._first_open = min(self._first_open, opened.current.line)
        return done

    def _take(self, line: PrefixedLine, number: int, level: Callable[[], str]) -> list[list[Raised]]:
        text, key = line.text.rstrip(), line.source
        self.took = False
        opened = self.open.get(key)
        if any(part in text for part in _OF_UNHEEDED) and _UNHEEDED.search(text):
            self._announced[key] = text, number
        if HEADER in text:
            return self._begin(line, number, text, level)
        if opened is None:
            return []
        opened.lines += 1
        if opened.current is not None:
            return self._after(opened, key, line, text, number)
        before = len(opened.frames)
        self._inside(opened, line, number, text)
        self.took = opened.current is not None or len(opened.frames) > before
        if opened.lines > _MOST_LINES or opened.noise > _MOST_NOISE:
            del self.open[key]
            return [opened.chain] if opened.chain else []
        return []

    def _stale(self, key: str, number: int) -> list[list[Raised]]:
        """Exceptions of other processes whose message has ended: nothing of theirs came for some lines."""
        if number - self._first_open <= _SILENT:
            return []
        old = [
            other
            for other, opened in self.open.items()
            if other != key and opened.current is not None and number - opened.current.line > _SILENT
        ]
        done = [_closed(self.open.pop(other)) for other in old]
        lines = [opened.current.line for opened in self.open.values() if opened.current is not None]
        self._first_open = min(lines, default=number)
        return done

    def take_loose(self, raised: Raised) -> None:
        """An exception whose traceback is not there: the lines of its message may follow."""
        raised.announced = self._above(raised.of.source, raised.line)
        self._first_open = min(self._first_open, raised.line)
        self.open[raised.of.source] = _Open(current=raised)

    def _above(self, key: str, number: int) -> str:
        text, at = self._announced.get(key, ("", -10))
        return text if number - at <= _BETWEEN_UNHEEDED else ""

    def end(self, line: PrefixedLine) -> list[list[Raised]]:
        """Chains that are complete as nothing more comes of them."""
        opened = self.open.pop(line.source, None)
        return [chain] if opened is not None and (chain := _closed(opened)) else []

    def finish(self) -> list[list[Raised]]:
        """Chains that the end of the file completes."""
        rest = list(map(_closed, self.open.values()))
        self.open.clear()
        return [chain for chain in rest if chain]

    def _begin(self, line: PrefixedLine, number: int, text: str, level: Callable[[], str]) -> list[list[Raised]]:
        key = line.source
        opened, done = self.open.get(key), list[Raised]()
        raised = opened.current if opened is not None else None
        linked = raised is None or _WITHIN.search(text) or _OF_CELL.search(raised.type)
        if opened is not None and (opened.chain or raised) and not linked:
            done, opened = _closed(opened), None
        if opened is not None and opened.current is not None:
            opened.chain.append(opened.current)
            opened.current = None
        if opened is None:
            if len(self.open) >= _MOST_OPEN:
                self.open.pop(next(iter(self.open)))
            opened = self.open[key] = _Open(announced=self._above(key, number), level=level())
        opened.frames, opened.noise, opened.of = [], 0, line
        opened.indent = len(text) - len(text.lstrip(" "))
        opened.boxed = text.lstrip()[:1] in "╭┌"
        return [done] if done else []

    def _inside(self, opened: _Open, line: PrefixedLine, number: int, text: str) -> None:
        """A line between the header and the exception."""
        indent = opened.indent if opened.indent and not text[: opened.indent].strip() else 0
        text = text[indent:]
        stripped = text.strip("│| \t") if opened.boxed else text
        frame = frame_of(text)
        if frame is not None:
            opened.frames.append(frame)
            opened.indent = max(opened.indent, indent + len(text) - len(text.lstrip(" ")) - _OF_FRAME)
            opened.noise, opened.pending_code = 0, True
            return
        if opened.pending_code and opened.frames and text[:1] in " \t":
            opened.pending_code = False
            opened.frames[-1] = replace(opened.frames[-1], text=text.strip()[:200])
            return
        behind_frame = bool(opened.frames) and opened.noise == 0
        opened.pending_code = False
        raised = _raised(stripped)
        own = _OWN_TYPE.match(stripped) or _BARE_TYPE.match(stripped) if behind_frame else None
        if raised is None and own is not None:
            raised = own["type"], (own["message"] or "").strip()
        if raised is None:
            blank = not text.strip() or text[:1] in " \t│|╭╰-" or _WITHIN.search(text)
            opened.noise += 0 if blank else 1
            return
        kind, message = raised
        frames = opened.frames
        packages = [_PACKAGE.search(item.path) for item in frames[-_INNERMOST:]]
        finalizer = any(item.function in _OF_FINALIZERS for item in frames)
        opened.current = Raised(
            type=kind,
            text=f"{kind}: {message}" if message else kind,
            line=number,
            of=line if line.rank is not None else replace(line, rank=opened.of.rank),
            frame=_own(frames),
            libraries=tuple(dict.fromkeys(item[1] for item in packages if item)),
            announced=opened.announced or ("finalizer" if finalizer else ""),
            at_exit=finalizer or opened.announced.startswith(_AT_EXIT),
            level=opened.level,
            of_script=bool(frames) and frames[0].function == "<module>" and _LIBRARY.search(frames[0].path) is None,
            by_hand=bool(frames) and frames[-1].text.startswith("raise "),
            of_library=bool(frames) and _LIBRARY.search(frames[-1].path) is not None,
            evaluating=any(_EVALUATES.fullmatch(item.function) for item in frames),
        )
        opened.message_lines = opened.noise = 0

    def _after(self, opened: _Open, key: str, line: PrefixedLine, text: str, number: int) -> list[list[Raised]]:
        """A line behind the exception: more of its message, a link to the next, or the end."""
        current = opened.current
        assert current is not None
        opened.message_lines += 1
        if _CHAIN.match(text.lstrip(" ")) or _WITHIN.search(text):
            opened.chain.append(current)
            opened.current, opened.frames, opened.noise = None, [], 0
            return []
        if not text.strip():
            opened.noise += 0 if current.text.endswith(":") and opened.message_lines == 1 else 1
            if opened.noise <= 2:
                return []
        elif (wrapped := _OF_RAY.search(current.type)) and (inner := _raised(text)) and inner[0] == wrapped[1]:
            opened.chain.append(current)  # the task's own exception, below its frames
            opened.current = replace(current, type=inner[0], text=text, line=number)
            return []
        elif (
            opened.noise == 0
            and not (current.quoted and text[:1] not in " \t")  # what follows is another message of the program
            and not _NOT_OF_MESSAGE.match(text)
            and not (text[:1] not in " \t<" and GOES_ON.search(text))
            and len(current.text) < _MOST_TEXT
            and opened.message_lines <= _MOST_MESSAGE_LINES
            and not (line.stamp and not current.of.stamp)  # a cluster may put the time before every line
            and not (current.of.stamp and opened.frames and not line.stamp)
            and without_level(text.lstrip()) == text.lstrip()
            and (_raised(text) is None or text.startswith("nccl") or current.text.endswith("raised:"))
            and step_of(text) is None
            and not has_result(text)
        ):
            current.text += ("" if current.text.endswith(": ") else "\n") + text[:500]
            return []
        del self.open[key]
        return [_closed(opened)]


def _closed(opened: _Open) -> list[Raised]:
    return [*opened.chain, opened.current] if opened.current is not None else opened.chain


def _raised(text: str) -> tuple[str, str] | None:
    found = _RAISED.match(text) or _DOTTED.match(text)
    return (found["type"], (found["message"] or "").strip()) if found else None


def loose_exception(text: str, line: PrefixedLine, number: int) -> Raised | None:
    """What a line has of an exception without its traceback; None for any other line."""
    bare = without_level(text)
    found = _RAISED.match(bare) or _DOTTED.match(bare)
    if found is not None:
        kind, message = found["type"], (found["message"] or "").strip()
        if kind.endswith("Warning") or not (message or "." in kind):
            return None
        quoted = _TAKES_ANOTHER.search(message) is not None
        return Raised(kind, f"{kind}: {message}", number, line, quoted=quoted)
    found = _LOOSE.search(text)
    if found is None or "Warning" in found["type"] or _OF_GO.match(text):
        return None
    before, message = _NOT_WORDS.sub(" ", text[: found.start("type")]), found["message"].strip()
    quoted = _WORD.search(before) is not None or _TAKES_ANOTHER.search(message) is not None
    return Raised(found["type"], f"{found['type']}: {message}", number, line, quoted=quoted, before=before)


def printed_exception(text: str, line: PrefixedLine, number: int) -> Raised | None:
    """An exception as Python prints the object: `KeyError('a')`."""
    found = _PRINTED.match(text)
    return Raised(found[1], f"{found[1]}: {found[3]}", number, line) if found else None


def frame_of(text: str) -> LogFrame | None:
    """The frame that a line of a traceback names; None for any other line."""
    found = _FRAME.match(text)
    if found is not None:
        return LogFrame(path=found[1], line=int(found[2]), function=found[3] or "")
    found = _RICH_FRAME.match(text)
    if found is not None:
        return LogFrame(path=found[1], line=int(found[2]), function=found[3])
    if text[:1] in "~/<CF":
        found = _NOTEBOOK_FRAME.match(text)
        if found is not None:
            return LogFrame(path=found[1] or found[2], line=int(found[3] or found[4] or 0), function=found[5] or "")
    return None


def _own(frames: list[LogFrame]) -> LogFrame | None:
    """The innermost frame of the user's own code; of a text that was executed only if there is no file."""
    own = [item for item in frames if not _LIBRARY.search(item.path)]
    return next((item for item in reversed(own) if item.path != "<string>"), own[-1] if own else None)
