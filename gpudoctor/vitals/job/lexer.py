"""The lexer of shell scripts: text to simple commands made of literal and expanding pieces."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_SKIPPED = re.compile(r"(?:[ \t]|\\\n)+|#[^\n]*")
_HEREDOC = re.compile(r"\d{0,9}<<(-?)[ \t]*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([^\s;&|<>()'\"]+))")
_REDIRECTION = re.compile(r"\d{0,9}(?:&>>?|<<<|>>|>&|<&|>\||<>|<<-?|[<>])(?!\()")
_OPERATOR = re.compile(r"&&|\|\||;;|\|&|[\n;|()]|&(?!>)")
_ORDINARY = re.compile(r"[^'\"\\$` \t\n;&|()<>]+")
"""Characters that mean nothing but themselves, quoted or not."""
_QUOTED = re.compile(r"[^\"\\$`]+")
_ENDS = frozenset(" \t\n;&|()<>")
_ESCAPED = frozenset('"\\$`\n')
"""What a backslash takes its meaning from inside double quotes."""
_LONG = 4096
"""Characters after which a literal goes on in a new piece: texts that grow by a letter cost their square."""
_EXPANSION = re.compile(r"\$(?:[A-Za-z_]\w*|[@*#?$!0-9-])")


@dataclass(slots=True)
class Piece:
    """A part of a word: literal text or an expansion as written, quoted or not."""

    text: str
    expands: bool = False
    quoted: bool = False


@dataclass(slots=True)
class Command:
    """One simple command before expansion."""

    words: list[list[Piece]] = field(default_factory=list)
    arrays: dict[int, list[list[Piece]]] = field(default_factory=dict)
    """Index of an assignment word to the words of its array."""
    line: int = 0
    start: int = 0
    end: int = 0
    after: str = "\n"
    """The operator that stands before it."""


class Lexer:
    """Cuts a script into commands; an unclosed quote ends at the end of the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._heredocs: list[tuple[str, bool]] = []
        self._row, self._counted = 1, 0

    def commands(self) -> Iterator[Command]:
        """Simple commands in order, empty ones left out."""
        current = Command()
        while self._at < len(self._text):
            if self._take(_SKIPPED):
                continue
            if operator := self._take(_OPERATOR):
                if current.words:
                    yield current
                current = Command(after=operator[0])
                if operator[0] == "\n":
                    self._skip_heredocs()
            elif found := self._take(_HEREDOC):
                self._heredocs.append((found[2] or found[3] or found[4], bool(found[1])))
            elif self._take(_REDIRECTION):  # with its target; a file descriptor before it is no word
                while self._take(_SKIPPED):
                    pass
                if self._at < len(self._text) and self._text[self._at] not in _ENDS:
                    self._word(Command())
            else:
                if not current.words:
                    self._row += self._text.count("\n", self._counted, self._at)
                    self._counted = self._at
                    current.line, current.start = self._row, self._at
                self._word(current)
                current.end = self._at
        if current.words:
            yield current

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

    def _word(self, into: Command) -> None:
        """One word from here to the next blank or operator."""
        text = self._text
        pieces: list[Piece] = []
        while self._at < len(text):
            char = text[self._at]
            if char == "(" and len(pieces) == 1 and re.fullmatch(r"[A-Za-z_]\w*\+?=", pieces[0].text):
                into.arrays[len(into.words)] = self._array()
                break
            if char in _ENDS:
                break
            self._piece(pieces, quoted=False)
        if not pieces:  # a lone bracket that no rule takes
            self._at += 1
            return
        into.words.append(pieces)

    def _piece(self, pieces: list[Piece], *, quoted: bool) -> None:
        """What stands here, inside double quotes if `quoted`."""
        text, char = self._text, self._text[self._at]
        following = text[self._at + 1 : self._at + 2]
        if char == "'" and not quoted:
            end = text.find("'", self._at + 1)
            end = len(text) if end < 0 else end
            pieces.append(Piece(text[self._at + 1 : end], quoted=True))
            self._at = end + 1
        elif char == '"' and not quoted:
            self._at += 1
            pieces.append(Piece("", quoted=True))
            while self._at < len(text) and text[self._at] != '"':
                self._piece(pieces, quoted=True)
            self._at += 1
        elif char == "\\" and (not quoted or following in _ESCAPED):
            _literal(pieces, following.strip("\n"), quoted=quoted)
            self._at += 2
        elif char in "$`" and (found := self._expansion()):
            pieces.append(Piece(found, expands=True, quoted=quoted))
        else:
            run = self._take(_QUOTED if quoted else _ORDINARY)
            _literal(pieces, run[0] if run else char, quoted=quoted)
            self._at += run is None

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

    def _array(self) -> list[list[Piece]]:
        """The words of `NAME=( ... )`."""
        self._at += 1
        inside = Command()
        while self._at < len(self._text):
            if self._take(_SKIPPED):
                continue
            char = self._text[self._at]
            if char in "\n;&|()<>":
                self._at += 1
                if char == ")":
                    break
            else:
                self._word(inside)
        return inside.words


def _literal(pieces: list[Piece], text: str, *, quoted: bool) -> None:
    last = pieces[-1] if pieces else None
    if last is not None and not last.expands and last.quoted == quoted and len(last.text) < _LONG:
        last.text += text
    elif text:
        pieces.append(Piece(text, quoted=quoted))
