"""Reads shell scripts without running them: simple commands with their variables expanded as far as they are known.

Assignments, exports, arrays, defaults and sums are followed in order. A command substitution is never run; it stays
in the word as it was written.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as plain_field

from gpudoctor.model.read_limits import JOB_EXPANDED
from gpudoctor.model.records import field, frozen, replace
from gpudoctor.model.unavailable import Unavailable

Value = str | tuple[str, ...]
"""A variable: a text, or the words of an array."""

_SKIPPED = re.compile(r"(?:[ \t]|\\\n)+|#[^\n]*")
_HEREDOC = re.compile(r"\d{0,9}<<(-?)[ \t]*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([^\s;&|<>()'\"]+))")
_REDIRECTION = re.compile(r"\d{0,9}(?:&>>?|<<<|>>|>&|<&|>\||<>|<<-?|[<>])(?!\()")
_OPERATOR = re.compile(r"&&|\|\||;;|\|&|[\n;|()]|&(?!>)")
_ORDINARY = re.compile(r"[^'\"\\$` \t\n;&|()<>]+")
"""Characters that mean nothing but themselves, outside of quotes and inside."""
_QUOTED = re.compile(r"[^\"\\$`]+")
_ENDS = frozenset(" \t\n;&|()<>")
_ESCAPED = frozenset('"\\$`\n')
"""What a backslash takes its meaning from inside double quotes."""
_EXPANSION = re.compile(r"\$(?:[A-Za-z_]\w*|[@*#?$!0-9-])")
_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_DEFAULT = re.compile(r"([A-Za-z_]\w*)(?::?[-=])(.*)", re.DOTALL)
_LOOPS = frozenset({"for", "while", "until"})
_OPENING = frozenset({"if", "case", "select", "{"})
_CLOSING = frozenset({"fi", "esac", "}"})
_LEADING = frozenset({"then", "else", "elif", "do", "while", "until", "!", "{", "}", "fi", "done", "esac", "if"})
_DECLARING = frozenset({"export", "declare", "local", "typeset", "readonly"})
_TESTS = frozenset({"[", "[[", "test", "command", "which", "grep", "type", "hash", "((", "mountpoint"})
_BACKGROUND = re.compile(r"(?:\|[^\n;&|]*)*&(?![&>])")
"""The rest of a pipeline that runs in the background."""
_SPLIT = re.compile(r"(?:\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`|\S)+")
"""Words of an unquoted value; a command substitution in it stays whole."""
_SUM = re.compile(r"\s*(-?\d{1,18})\s*(?:([-+*/%])\s*(\d{1,18})\s*)?")
"""A number, or two with what is done to them."""
_OPERATIONS: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
    "%": operator.mod,
}
_LONGEST = 200
"""Characters of arithmetic, and of a variable in it, that are worked out."""
_DEEPEST = 8
"""Nested expansions that are followed; a variable that names itself ends there."""


@frozen
class ShellCommand:
    """One simple command, expanded."""

    words: tuple[str, ...]
    """Its words without assignments before the command."""
    line: int
    text: str
    assigned: Mapping[str, str] = field(default_factory=dict)
    """`X=1` before the command, for this command only."""
    exported: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    conditional: bool = False
    """Whether it stands in an `if`, a `case`, a function or after a test."""
    inherited: Mapping[str, str] = field(default_factory=dict)
    """Variables that a shell which it starts will have; only told for commands that seem to start one."""
    background: bool = False
    """Whether the script goes on while it runs (`&`)."""
    looped: bool = False


class Variables(dict[str, Value]):
    """The variables of a script, and what their expansions may still come to.

    A variable that is doubled line by line has millions of characters soon.
    """

    def __init__(self, known: Mapping[str, str]) -> None:
        super().__init__(known)
        self._left = JOB_EXPANDED.most

    def assign(self, assigned: Mapping[str, Value], *, doubtful: bool) -> None:
        """Take over assignments; what one under a condition may or may not replace is not known any more."""
        for name, value in assigned.items():
            before = _text(self.get(name, ""))
            unset = re.fullmatch(r"(\$\{?\d.*)?", before)  # or an argument of the script, which nobody knows
            extended = _text(value).startswith(before)
            if not doubtful or unset or extended:
                self[name] = value
            else:
                self.pop(name, None)

    def spend(self, value: Value) -> None:
        """An expansion has come to this. Raises `Unavailable` beyond the budget."""
        self._left -= len(value) if isinstance(value, str) else sum(map(len, value)) + len(value)
        if self._left < 0:
            raise Unavailable("its variables come to {words}", words=JOB_EXPANDED.words)


def read_lines(text: str, known: Mapping[str, str] | None = None) -> Iterator[ShellCommand]:
    """The simple commands of a script in order, expanded by the assignments before them.

    `known` are variables from outside. What cannot be understood is passed over, and an unclosed quote ends at the
    end of the text; raises `Unavailable` only for expansions beyond their budget.
    """
    return _Shell(text.replace("\r\n", "\n").replace("\0", ""), known or {}).commands()


@dataclass(slots=True)
class _Words:
    """One simple command, read."""

    first: str = ""
    """Its first word, if that is literal."""
    words: list[str] = plain_field(default_factory=list)
    """Without assignments and the keywords before it."""
    assigned: dict[str, Value] = plain_field(default_factory=dict)
    line: int = 0
    """0 where nothing was read."""
    start: int = 0
    end: int = 0


@dataclass(slots=True)
class _Fields:
    """What one word becomes."""

    done: list[str] = plain_field(default_factory=list)
    current: list[str] | None = None
    vanished: bool = False
    """Whether an array without words stood there: `"$@"` of no arguments is no word at all."""
    literal: bool = True

    def add(self, text: str) -> None:
        """More of the present field."""
        self.current = [*(self.current or ()), text]

    def spread(self, parts: list[str]) -> None:
        """Several: the first goes on with the present field, the last stays open."""
        self.add(parts[0])
        for part in parts[1:]:
            self.done.append("".join(self.current or ()))
            self.current = [part]

    def all(self) -> list[str]:
        """The fields of the whole word."""
        last = None if self.current is None else "".join(self.current)
        return self.done if last is None or (self.vanished and not last) else [*self.done, last]


class _Shell:
    """A script as far as it is read."""

    def __init__(self, text: str, known: Mapping[str, str]) -> None:
        self._text = text
        self._at = 0
        self._variables = Variables(known)
        self._exported: set[str] = set(known)
        self._heredocs: list[tuple[str, bool]] = []
        self._row, self._counted = 1, 0

    def commands(self) -> Iterator[ShellCommand]:
        """Simple commands in order, empty ones left out."""
        depth = 0
        """Of `if`, `case` and functions around the command."""
        loops = 0
        tested = False
        """Whether a test decides on the next command of the same line."""
        after = "\n"
        while self._at < len(self._text):
            found = self._read()
            if found.line:
                if found.first in _OPENING:
                    depth += 1
                elif found.first in _CLOSING:
                    depth = max(depth - 1, 0)
                loops = max(loops + (found.first in _LOOPS) - (found.first == "done"), 0)
                is_test = found.first in _TESTS
                depends = after == "||" or (after == "&&" and (tested or is_test))
                tested = is_test or depends
                command = self._run(found, depth > 0 or depends)
                background = _BACKGROUND.match(self._text, self._at) is not None
                yield replace(command, background=background, looped=loops > 0)
            ended = self._take(_OPERATOR)
            after = ended[0] if ended else ""
            if after == "\n":
                self._skip_heredocs()

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """What stands here, consumed."""
        found = pattern.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return found

    def _skip_heredocs(self) -> None:
        for delimiter, dash in self._heredocs:
            while self._at < len(self._text):
                end = self._text.find("\n", self._at)
                end = len(self._text) if end < 0 else end
                line = self._text[self._at : end]
                self._at = min(end + 1, len(self._text))
                if (line.lstrip("\t") if dash else line) == delimiter:
                    break
        self._heredocs.clear()

    def _read(self) -> _Words:
        """What stands before the next operator."""
        found = _Words()
        while self._at < len(self._text) and not _OPERATOR.match(self._text, self._at):
            if self._take(_SKIPPED):
                continue
            if heredoc := self._take(_HEREDOC):
                self._heredocs.append((heredoc[2] or heredoc[3] or heredoc[4], bool(heredoc[1])))
            elif self._take(_REDIRECTION):  # with its target; a file descriptor before it is no word
                while self._take(_SKIPPED):
                    pass
                self._word(split=False)
            else:
                if not found.line:
                    self._row += self._text.count("\n", self._counted, self._at)
                    self._counted = self._at
                    found.line, found.start = self._row, self._at
                self._add(found)
                found.end = self._at
        return found

    def _add(self, found: _Words) -> None:
        """One more word of a command, or an assignment."""
        begin = self._at
        assignment = _ASSIGNMENT.match(self._text, begin)
        if assignment is not None and (not found.words or found.words[0] in _DECLARING):
            self._at = assignment.end()
            name = assignment[1]
            value = self._array() if self._text.startswith("(", self._at) else "".join(self._word(split=False).all())
            found.assigned[name] = self._appended(name, value) if assignment[2] else value
            return
        word = self._word(split=True)
        self._at += self._at == begin  # a lone bracket that no rule takes
        fields = word.all()
        plain = fields[0] if word.literal and fields else ""
        if begin == found.start:
            found.first = plain
        if found.words or found.assigned or plain not in _LEADING:
            found.words += fields

    def _appended(self, name: str, value: Value) -> Value:
        """`NAME+=value` or `NAME+=(...)`."""
        before = self._variables.get(name, "")
        self._variables.spend(before)
        if isinstance(value, str) and isinstance(before, str):
            return before + value
        first, second = ((item,) if isinstance(item, str) else item for item in (before, value))
        return (first if before else ()) + second

    def _array(self) -> tuple[str, ...]:
        """The words of `( ... )`."""
        self._at += 1
        words: list[str] = []
        while self._at < len(self._text):
            if self._take(_SKIPPED):
                continue
            char = self._text[self._at]
            if char in _ENDS:
                self._at += 1
                if char == ")":
                    break
            else:
                words += self._word(split=True).all()
        return tuple(words)

    def _word(self, *, split: bool) -> _Fields:
        """From here to the next blank or operator; `split`: unquoted values become several fields."""
        text, word = self._text, _Fields()
        while self._at < len(text) and text[self._at] not in _ENDS:
            char = text[self._at]
            if char == "'":
                end = text.find("'", self._at + 1)
                end = len(text) if end < 0 else end
                word.add(text[self._at + 1 : end])
                word.literal = False
                self._at = end + 1
            elif char == '"':
                word.add("")
                word.literal = False
                self._at += 1
                while self._at < len(text) and text[self._at] != '"':
                    self._piece(word, quoted=True, split=split)
                self._at += 1
            else:
                self._piece(word, quoted=False, split=split)
        return word

    def _piece(self, word: _Fields, *, quoted: bool, split: bool) -> None:
        """What stands here, inside double quotes if `quoted`."""
        char = self._text[self._at]
        following = self._text[self._at + 1 : self._at + 2]
        if char == "\\" and (not quoted or following in _ESCAPED):
            if following.strip("\n"):  # else the line goes on
                word.add(following)
            self._at += 2
        elif char in "$`" and (written := self._expansion()):
            word.literal = False
            self._expand(word, written, quoted=quoted, split=split)
        else:
            run = self._take(_QUOTED if quoted else _ORDINARY)
            word.add(run[0] if run else char)
            self._at += run is None

    def _expand(self, word: _Fields, written: str, *, quoted: bool, split: bool) -> None:
        array = _array(written, self._variables) if split else None
        if array is not None:
            parts = list(array)
        else:
            value = _resolve(written, self._variables)
            parts = _SPLIT.findall(value) if split and not quoted and value != written else [value]
        self._variables.spend(tuple(parts))
        if parts:
            word.spread(parts)
        else:
            word.vanished = word.vanished or array is not None

    def _expansion(self) -> str:
        """The expansion that starts here, consumed; "" for a lone dollar."""
        text, start = self._text, self._at
        if text[start] == "`":
            end = text.find("`", start + 1)
            self._at = len(text) if end < 0 else end + 1
        elif text.startswith("$(", start):
            self._at = self._balanced(start + 1, "(", ")")
        elif text.startswith("${", start):
            self._at = self._balanced(start + 1, "{", "}")
        else:
            self._take(_EXPANSION)
        return text[start : self._at]

    def _balanced(self, start: int, opening: str, closing: str) -> int:
        """The place after the bracket that closes the one at `start`, quotes inside respected."""
        text, depth, at = self._text, 0, start
        while at < len(text):
            char = text[at]
            if char == "\\":
                at += 1
            elif char == "'" and opening == "(":
                end = text.find("'", at + 1)
                at = len(text) if end < 0 else end
            elif char in (opening, closing):
                depth += 1 if char == opening else -1
                if depth == 0:
                    return at + 1
            at += 1
        return len(text)

    def _run(self, found: _Words, conditional: bool) -> ShellCommand:
        """Carry out a command's assignments; the command as others see it."""
        variables, words, assigned = self._variables, found.words, found.assigned
        exports: dict[str, str] = {}
        unset: tuple[str, ...] = ()
        if not words:
            variables.assign(assigned, doubtful=conditional)
            exports = {name: _text(value) for name, value in assigned.items() if name in self._exported}
        elif words[0] in _DECLARING:
            variables.update(assigned)
            if words[0] == "export":
                names = [*assigned, *(word for word in words[1:] if _NAME.fullmatch(word))]
                self._exported.update(names)
                exports = {name: _text(variables[name]) for name in names if name in variables}
            assigned = {}
        elif words[0] in {"unset", "for", "read"}:
            gone = words[1:2] if words[0] == "for" else [word for word in words[1:] if _NAME.fullmatch(word)]
            unset = tuple(gone) if words[0] == "unset" else ()
            for name in gone:
                variables.pop(name, None)
        source = self._text[found.start : found.end]
        return ShellCommand(
            words=tuple(words),
            line=found.line,
            text=" ".join(part.strip() for part in source.split("\\\n")).strip(),
            assigned={name: _text(value) for name, value in assigned.items()},
            exported=exports,
            unset=unset,
            conditional=conditional,
            inherited=_inherited(words, variables, self._exported, assigned),
        )


def _inherited(
    words: list[str], variables: Variables, exported: set[str], assigned: Mapping[str, Value]
) -> dict[str, str]:
    scripts = any(word.endswith((".sh", ".sbatch", ".bash")) for word in words)
    if not scripts and not any(re.fullmatch(r"-[a-z]*c", word) for word in words):
        return {}
    given = {name: _text(variables[name]) for name in exported if name in variables}
    variables.spend((*given, *given.values()))
    return given | {name: _text(value) for name, value in assigned.items()}


def _array(text: str, variables: Mapping[str, Value]) -> tuple[str, ...] | None:
    """The words of `${NAME[@]}`, and none for `$@` of a script whose arguments are not known."""
    if text in {"$@", "$*", "${@}", "${*}"}:
        return ()
    match = re.fullmatch(r"\$\{([A-Za-z_]\w*)\[[@*]\]\}", text)
    if match is None:
        return None
    value = variables.get(match[1])
    if value is None:
        return None
    return value if isinstance(value, tuple) else (value,)


def _text(value: Value) -> str:
    return value if isinstance(value, str) else " ".join(value)


def _resolve(text: str, variables: Mapping[str, Value], depth: int = 0) -> str:
    """The value of one expansion, or the expansion as written when it is not known."""
    if depth > _DEEPEST:
        return text
    if text.startswith("$((") and text.endswith("))"):
        return _arithmetic(text[3:-2], variables, text)
    if text.startswith(("$(", "`")):
        return text
    inner = text[2:-1] if text.startswith("${") else text[1:]
    if _NAME.fullmatch(inner):
        found = variables.get(inner)
        return text if found is None else _text(found)
    element = re.fullmatch(r"([A-Za-z_]\w*)\[(\d+)\]", inner)
    if element:
        array = variables.get(element[1])
        position = int(element[2][:9])
        if isinstance(array, tuple) and position < len(array):
            return array[position]
        return text
    default = _DEFAULT.fullmatch(inner)
    if default:
        found = variables.get(default[1])
        if found:
            return _text(found)
        inner = default[2].strip("\"'")  # quotes around it fall away
        return re.sub(r"\$\{[^{}]*\}|\$[A-Za-z_]\w*", lambda found: _resolve(found[0], variables, depth + 1), inner)
    return text


def _arithmetic(text: str, variables: Mapping[str, Value], written: str) -> str:
    """`N * 2` in whole numbers; as written for more than one operation, and when a name is not a known number."""
    if len(text) > _LONGEST:
        return written

    def value_of(match: re.Match[str]) -> str:
        return _text(variables.get(match[1] or match[2], "?"))[:_LONGEST]

    text = re.sub(r"\$\{([A-Za-z_]\w*)\}|\$?([A-Za-z_]\w*)", value_of, text)
    found = _SUM.fullmatch(text)
    if found is None:
        return written
    left, sign, right = found.groups()
    if sign is None:
        return left
    return written if sign in "/%" and not int(right) else str(_OPERATIONS[sign](int(left), int(right)))
