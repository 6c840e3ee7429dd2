"""Reads a pickle of plain values: dict, list, tuple, str, bytes, int, float, bool, None. Nothing of it is run.

Python's own reader calls what a pickle names. `load_plain` knows no such instruction: a pickle that names a
class or a function is refused at the first one. Keys are str or int, so that hashing one takes no time.
`load_plain_fast` is Python's own reader without names: a hundred times as fast, for thousands of files. What a
hostile file may still do there is take time and memory, or crash: it belongs into a process of its own.
"""

import io
import pickle
import struct
import time
from collections.abc import Callable
from typing import Any, Final, NoReturn

from gpudoctor.lang import SpokenError, say
from gpudoctor.model.read_limits import SNAPSHOT_DEPTH, SNAPSHOT_VALUES

SECONDS: Final = 120.0
"""Time that a pickle may take: real ones of 3 MB take one."""
_LOOKS = 1 << 18
"""Instructions between two looks at the clock."""
_LONGEST = 16
"""Bytes of an integer: an address has eight."""
_CODE = b"cio\x81\x92\x93Rb\x82\x83\x84PQ"
"""Instructions that name or call code: GLOBAL, INST, OBJ, NEWOBJ, STACK_GLOBAL, REDUCE, BUILD, EXT, PERSID."""


class NotPlain(SpokenError, ValueError):
    """A pickle that is damaged, too large in some way, or names code. Its text is a clause."""


def load_plain(data: bytes, seconds: float = SECONDS) -> Any:
    """The value of a pickle of protocol 2 to 5. Raises `NotPlain`."""
    try:
        return _Reader(data, time.monotonic() + seconds).read()
    except (IndexError, struct.error, KeyError, TypeError, UnicodeDecodeError, OverflowError) as error:
        raise NotPlain("it is damaged or cut short") from error


_NAMES_CODE: Final = "it names a class or a function, which loading would run; gpudoctor reads plain values only"


class _Nameless(pickle.Unpickler):
    """Python's reader, which builds nothing that has a name."""

    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:  # noqa: ARG002
        raise NotPlain(_NAMES_CODE)

    def persistent_load(self, pid: Any) -> NoReturn:  # noqa: ARG002
        raise NotPlain(_NAMES_CODE)


def load_plain_fast(data: bytes) -> Any:
    """The value of a pickle, sets and byte arrays included. Raises `NotPlain`; only for a child process."""
    stream = io.BufferedReader(io.BytesIO(data), max(len(data), 1))  # it can be peeked at
    try:
        return _Nameless(stream).load()
    except NotPlain:
        raise
    except Exception as error:  # the reader raises nearly everything for a damaged file
        if isinstance(error, MemoryError):
            raise
        raise NotPlain("it is damaged or cut short") from error


class _Reader:
    """The stack, the memo and the place in the bytes."""

    def __init__(self, data: bytes, deadline: float) -> None:
        self._data, self._deadline, self._at = data, deadline, 0
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._made = 0
        """Lists, dicts and tuples so far: each takes a byte of the pickle and a hundred of memory."""

    def read(self) -> Any:
        """Instruction by instruction up to STOP."""
        data, table = self._data, _TABLE
        while True:
            for _ in range(_LOOKS):
                code = data[self._at]
                self._at += 1
                act = table[code]
                if act is None:
                    if code == 0x2E:  # STOP
                        return self._stack.pop()
                    self._refuse(code)
                act(self)
            if self._made + len(self._memo) + len(self._stack) > SNAPSHOT_VALUES.most:
                raise NotPlain(say("it has {beyond}", beyond=SNAPSHOT_VALUES.beyond))
            if time.monotonic() > self._deadline:
                raise NotPlain("reading it takes longer than the time limit")

    def _refuse(self, code: int) -> NoReturn:
        if bytes([code]) in _CODE:
            raise NotPlain(_NAMES_CODE)
        raise NotPlain(say("it is not a pickle of plain values (instruction 0x{code:02x})", code=code))

    def take(self, size: int) -> bytes:
        """The next bytes."""
        begin, self._at = self._at, self._at + size
        if size < 0 or self._at > len(self._data):
            raise NotPlain("it is damaged or cut short")
        return self._data[begin : self._at]

    def number(self, form: str, size: int) -> int:
        """The next integer."""
        value: int = struct.unpack(form, self.take(size))[0]
        return value

    def push(self, value: Any) -> None:
        """A value onto the stack."""
        self._stack.append(value)

    def make(self, value: Any) -> None:
        """A container onto the stack."""
        self._made += 1
        self._stack.append(value)

    def mark(self) -> None:
        """Opens a bracket."""
        if len(self._marks) >= SNAPSHOT_DEPTH.most:
            raise NotPlain(say("it has {beyond}", beyond=SNAPSHOT_DEPTH.beyond))
        self._marks.append(len(self._stack))

    def since_mark(self) -> list[Any]:
        """What stands behind the last open bracket, which is closed."""
        begin = self._marks.pop()
        if begin > len(self._stack):
            raise IndexError
        items = self._stack[begin:]
        del self._stack[begin:]
        return items

    def integer(self, size: int) -> None:
        """An integer of so many bytes."""
        if size > _LONGEST:
            raise NotPlain("it has an integer that is too large for an address or a size")
        self.push(int.from_bytes(self.take(size), "little", signed=True))

    def tuple_of(self, size: int) -> None:
        """A tuple of the last values."""
        if size > len(self._stack):
            raise IndexError
        items = tuple(self._stack[len(self._stack) - size :])
        del self._stack[len(self._stack) - size :]
        self.make(items)

    def append(self, items: list[Any]) -> None:
        """Values to the list below them."""
        below = self._stack[-1]
        if type(below) is not list:
            raise TypeError
        below.extend(items)

    def set_items(self, items: list[Any]) -> None:
        """Keys and values to the dict below them."""
        below = self._stack[-1]
        if type(below) is not dict or len(items) % 2:
            raise TypeError
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) not in (str, int):
                raise NotPlain("it has a key that is neither a text nor a number")
            below[key] = value

    def pop(self) -> Any:
        """The last value."""
        return self._stack.pop()

    def keep(self, number: int | None = None) -> None:
        """The last value into the memo."""
        self._memo[len(self._memo) if number is None else number] = self._stack[-1]

    def again(self, number: int) -> None:
        """A value of the memo onto the stack."""
        self._stack.append(self._memo[number])


def _text(form: str, size: int) -> Callable[[_Reader], None]:
    return lambda reader: reader.push(reader.take(reader.number(form, size)).decode("utf-8", "surrogatepass"))


def _bytes(form: str, size: int) -> Callable[[_Reader], None]:
    return lambda reader: reader.push(reader.take(reader.number(form, size)))


def _appended(reader: _Reader) -> None:
    value = reader.pop()
    reader.append([value])


def _set(reader: _Reader) -> None:
    value, key = reader.pop(), reader.pop()
    reader.set_items([key, value])


_ACTIONS: dict[bytes, Callable[[_Reader], Any]] = {
    b"\x80": lambda reader: reader.take(1),  # PROTO
    b"\x95": lambda reader: reader.take(8),  # FRAME
    b"N": lambda reader: reader.push(None),
    b"\x88": lambda reader: reader.push(True),
    b"\x89": lambda reader: reader.push(False),
    b"J": lambda reader: reader.push(reader.number("<i", 4)),
    b"K": lambda reader: reader.push(reader.number("<B", 1)),
    b"M": lambda reader: reader.push(reader.number("<H", 2)),
    b"\x8a": lambda reader: reader.integer(reader.number("<B", 1)),
    b"\x8b": lambda reader: reader.integer(reader.number("<I", 4)),
    b"G": lambda reader: reader.push(struct.unpack(">d", reader.take(8))[0]),
    b"\x8c": _text("<B", 1),
    b"X": _text("<I", 4),
    b"\x8d": _text("<Q", 8),
    b"C": _bytes("<B", 1),
    b"B": _bytes("<I", 4),
    b"\x8e": _bytes("<Q", 8),
    b"}": lambda reader: reader.make({}),
    b"]": lambda reader: reader.make([]),
    b")": lambda reader: reader.push(()),
    b"\x85": lambda reader: reader.tuple_of(1),
    b"\x86": lambda reader: reader.tuple_of(2),
    b"\x87": lambda reader: reader.tuple_of(3),
    b"t": lambda reader: reader.make(tuple(reader.since_mark())),
    b"(": lambda reader: reader.mark(),
    b"a": _appended,
    b"e": lambda reader: reader.append(reader.since_mark()),
    b"s": _set,
    b"u": lambda reader: reader.set_items(reader.since_mark()),
    b"\x94": lambda reader: reader.keep(),
    b"q": lambda reader: reader.keep(reader.number("<B", 1)),
    b"r": lambda reader: reader.keep(reader.number("<I", 4)),
    b"h": lambda reader: reader.again(reader.number("<B", 1)),
    b"j": lambda reader: reader.again(reader.number("<I", 4)),
    b"0": lambda reader: reader.pop(),
}
_TABLE = [_ACTIONS.get(bytes([code])) for code in range(256)]
