"""Calls of ours in a function's own body: the function does what it did, and is what it was."""

import inspect
import sys
import traceback
from types import FunctionType

import pytest

from gpudoctor.probe.instrument import MISSING, Unsuitable, forget_sources, instrument

COUNT = 0


@pytest.fixture(autouse=True)
def with_torch():
    """Torch is loaded, as it is wherever the probe instruments; not before the first test: it takes seconds."""
    pytest.importorskip("torch")


def plain(a, b=2, *rest, key=3, **others):
    """Its words."""
    return [a, b, rest, key, others]


def early(values):
    for value in values:
        try:
            if value < 0:
                return "negative"
            with open("/dev/null"):
                if value == 0:
                    return "zero"
        finally:
            values.append(None)
    return None


def counts(by):
    global COUNT
    COUNT += by

    def inner():
        return COUNT

    return inner()


def falls():
    pass


class Owner:
    __secret = 7

    def method(self, more):
        return self.__secret + more

    def of_super(self):
        return super().__repr__().startswith("<")

    @staticmethod
    def named(x):
        return (
        x,
    )  # fmt: skip


def decorator(word):
    def wrap(function):
        def wrapper(*args):
            return word, function(*args)

        return wrapper

    return wrap


@decorator("kept")
def decorated(x):
    return x


def raises():
    failing = 0
    return 1 / failing


def generator():
    yield 1


class Log:
    """Notes what came by."""

    def __init__(self, token=True):
        self.token = token
        self.entered = []
        self.left = []

    def enter(self, args, kwargs):
        self.entered.append((args, kwargs))
        return self.token

    def leave(self, token, result):
        self.left.append(result)


@pytest.fixture
def put():
    """Instrument functions, and give them their code back."""
    changed: list[tuple[FunctionType, object]] = []

    def instrumented(function, token=True):
        log = Log(token)
        changed.append((function, function.__code__))
        instrument(function, log.enter, log.leave)
        return log

    yield instrumented
    for function, before in reversed(changed):
        function.__code__ = before


def test_arguments_and_results_come_by(put):
    facts = inspect.signature(plain), inspect.getfullargspec(plain), inspect.getsource(plain), plain.__doc__
    log = put(plain)
    assert plain(1, 5, 6, key=7, x=8) == [1, 5, (6,), 7, {"x": 8}]
    assert log.entered == [((1, 5, 6), {"key": 7, "x": 8})]
    assert log.left == [[1, 5, (6,), 7, {"x": 8}]]
    assert facts == (
        inspect.signature(plain), inspect.getfullargspec(plain), inspect.getsource(plain), plain.__doc__
    )  # fmt: skip


def test_every_way_out_is_seen(put):
    log = put(early)
    assert [early([-1]), early([0]), early([])] == ["negative", "zero", None] == log.left
    log = put(falls)
    assert falls() is None and log.left == [None]


def test_without_a_token_nothing_is_left(put):
    log = put(plain, token=None)
    plain(1)
    assert log.entered and not log.left


def test_global_names_closures_private_names_and_super(put):
    log = put(counts)
    before = COUNT
    assert counts(2) == before + 2 == COUNT == log.left[0]
    for function, args, result in (
        (Owner.method, (Owner(), 1), 8),
        (Owner.of_super, (Owner(),), True),
        (Owner.named, (4,), (4,)),
        (decorated, (5,), ("kept", 5)),
    ):
        log = put(function)
        assert function(*args) == result == log.left[0]
        assert log.entered[0][0] == args


def test_a_traceback_is_as_without(put):
    def seen():
        with pytest.raises(ZeroDivisionError) as caught:
            raises()
        return traceback.format_tb(caught.value.__traceback__)[1:]

    before = seen()
    log = put(raises)
    assert seen() == before
    assert log.left == [MISSING]
    assert len(before) == 1


def test_the_error_is_known_when_it_leaves(put):
    errors = []
    before = raises.__code__
    instrument(raises, lambda *_: True, lambda *_: errors.append(sys.exc_info()[1]))
    with pytest.raises(ZeroDivisionError) as caught:
        raises()
    raises.__code__ = before
    assert errors == [caught.value]


def test_several_calls_in_one_function_nest(put):
    order = []
    first = falls.__code__
    instrument(falls, lambda *_: order.append("inner in") or 1, lambda *_: order.append("inner out"))
    instrument(falls, lambda *_: order.append("outer in") or 1, lambda *_: order.append("outer out"))
    falls()
    falls.__code__ = first
    assert order == ["outer in", "inner in", "inner out", "outer out"]


def test_what_cannot_be_replaced_is_left_as_it_is(put, tmp_path):
    code = generator.__code__
    with pytest.raises(Unsuitable):
        instrument(generator, None, None)
    assert generator.__code__ is code
    with pytest.raises(Unsuitable):
        instrument(lambda: 1, None, None)
    path = tmp_path / "module.py"
    path.write_text("def changed():\n    return 1\n")
    names = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    path.write_text("def changed():\n    return 2\n")
    with pytest.raises(Unsuitable):
        instrument(names["changed"], None, None)
    assert names["changed"]() == 1
    path.unlink()
    forget_sources()
    with pytest.raises(OSError):
        instrument(names["changed"], None, None)
