"""A reader of shell scripts: simple commands with their words, assignments followed; nothing is ever executed.

It knows quotes, continuations, comments, here-documents, redirections, arrays, `${X:-4}` and `$((2 * N))`.
What it cannot know (a command substitution, an unset variable) stays in the word as it was written.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping

from gpudoctor.model.read_limits import JOB_EXPANDED
from gpudoctor.model.records import field, frozen
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.vitals.job.lexer import Command, Lexer, Piece

Value = str | tuple[str, ...]
"""A variable: a text, or the words of an array."""

_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_DEFAULT = re.compile(r"([A-Za-z_]\w*)(?::?[-=])(.*)", re.DOTALL)
_OPENING = frozenset({"if", "case", "select", "{"})
_CLOSING = frozenset({"fi", "esac", "}"})
_LEADING = frozenset({"then", "else", "elif", "do", "while", "until", "!", "{", "}", "fi", "done", "esac", "if"})
_TESTS = frozenset({"[", "[[", "test", "command", "which", "grep", "type", "hash", "((", "mountpoint"})
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

    `known` are variables from outside. What cannot be understood is passed over; raises `Unavailable` only for
    expansions beyond their budget.
    """
    text = text.replace("\r\n", "\n").replace("\0", "")
    variables = Variables(known or {})
    exported: set[str] = set(variables)
    depth = 0
    """Of `if`, `case` and functions around the command."""
    tested = False
    """Whether a test decides on the next command of the same line."""
    for command in Lexer(text).commands():
        first = _plain(command.words[0]) if command.words else ""
        if first in _OPENING:
            depth += 1
        elif first in _CLOSING:
            depth = max(depth - 1, 0)
        is_test = first in _TESTS
        if command.after == "||":
            depends = True
        elif command.after == "&&":
            depends = tested or is_test
        else:
            depends = False
        yield from _expanded(command, text, variables, exported, depth > 0 or depends)
        tested = is_test or depends


def _expanded(
    command: Command, text: str, variables: Variables, exported: set[str], conditional: bool
) -> Iterator[ShellCommand]:
    """Run one command's assignments in `variables` and give its expanded form."""
    index = 0
    while index < len(command.words) and _plain(command.words[index]) in _LEADING:
        index += 1
    assigned: dict[str, Value] = {}
    while index < len(command.words):
        pair = _assignment(command, index, variables)
        if pair is None:
            break
        name, value = pair
        assigned[name] = value
        index += 1
    words = [word for item in command.words[index:] for word in expand(item, variables)]
    exports: dict[str, str] = {}
    unset: tuple[str, ...] = ()
    if not words:
        variables.assign(assigned, doubtful=conditional)
        exports = {name: _text(value) for name, value in assigned.items() if name in exported}
    elif words[0] in {"export", "declare", "local", "typeset", "readonly"}:
        declared = _declared(command, index + 1, variables)
        variables.update({name: value for name, value in declared.items() if value is not None})
        if words[0] == "export":
            exported.update(declared)
            exports = {name: _text(variables[name]) for name in declared if name in variables}
    elif words[0] in {"unset", "for", "read"}:
        if words[0] == "for":
            gone = words[1:2]
        else:
            gone = [word for word in words[1:] if _NAME.fullmatch(word)]
        if words[0] == "unset":
            unset = tuple(gone)
        for name in gone:
            variables.pop(name, None)
    source = " ".join(part.strip() for part in text[command.start : command.end].split("\\\n")).strip()
    yield ShellCommand(
        words=tuple(words),
        line=command.line,
        text=source,
        assigned={name: _text(value) for name, value in assigned.items()},
        exported=exports,
        unset=unset,
        conditional=conditional,
        inherited=_inherited(words, variables, exported, assigned),
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


def _declared(command: Command, start: int, variables: Variables) -> dict[str, Value | None]:
    found: dict[str, Value | None] = {}
    for index in range(start, len(command.words)):
        pair = _assignment(command, index, variables)
        if pair is not None:
            found[pair[0]] = pair[1]
        elif _NAME.fullmatch(name := _plain(command.words[index])):
            found[name] = None
    return found


def _assignment(command: Command, index: int, variables: Variables) -> tuple[str, Value] | None:
    """`NAME=value`, `NAME+=value` or `NAME=(...)` at a word, expanded."""
    word = command.words[index]
    match = _ASSIGNMENT.match(word[0].text) if word and not word[0].quoted and not word[0].expands else None
    if match is None:
        return None
    name, plus = match[1], bool(match[2])
    before = variables.get(name, "")
    if index in command.arrays:
        items = tuple(part for item in command.arrays[index] for part in expand(item, variables))
        if plus:
            items = ((before,) if isinstance(before, str) and before else tuple(before)) + items
            variables.spend(items)
        return name, items
    rest = [Piece(word[0].text[match.end() :]), *word[1:]]
    found = [_resolve(piece.text, variables) if piece.expands else piece.text for piece in rest]
    variables.spend(tuple(found))
    value = "".join(found)
    if plus:
        variables.spend(before)
    if plus and isinstance(before, tuple):
        return name, (*before, value)
    return name, (_text(before) + value if plus else value)


def expand(word: list[Piece], variables: Variables) -> list[str]:
    """The words that one word becomes: variables resolved, unquoted ones split, arrays spread."""
    done: list[str] = []
    current: str | None = None
    vanished = False
    for piece in word:
        if not piece.expands:
            current = (current or "") + piece.text
            continue
        array = _array(piece.text, variables)
        if array is not None:
            parts = list(array)
            variables.spend(array)
        else:
            value = _resolve(piece.text, variables)
            variables.spend(value)
            known = value != piece.text
            parts = [value] if piece.quoted or not known else _SPLIT.findall(value)
        if not parts:
            vanished = vanished or array is not None
            continue
        if len(parts) > 1:
            done.append((current or "") + parts[0])
            done += parts[1:-1]
            current = parts[-1]
        else:
            current = (current or "") + parts[0]
    if current is not None and not (vanished and not current):  # `"$@"` of no arguments is no word at all
        done.append(current)
    return done


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


def _plain(word: list[Piece]) -> str:
    """A word that is literal throughout, else ""."""
    if any(piece.expands or piece.quoted for piece in word):
        return ""
    return "".join(piece.text for piece in word)
