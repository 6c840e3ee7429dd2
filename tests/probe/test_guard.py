"""A function of ours around one of others: it does what the other does, and is named as it."""

import inspect
import signal
import sys
import traceback
from threading import Thread
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from gpudoctor.probe.clock import OPTIMIZER, Clock
from gpudoctor.probe.guard import CALLER, Guard
from gpudoctor.probe.importlib_bootstrap import MISSING, Usual, wrapped
from gpudoctor.probe.table import OTHER

TORCH = SimpleNamespace(_C=MagicMock(), compiler=SimpleNamespace(is_dynamo_compiling=lambda: False))


def plain(a, b=2, *rest, key=3, **others):
    """Its words."""
    return [a, b, rest, key, others]


def raises():
    return 1 / 0


class Log:
    """Notes what came by."""

    def __init__(self, token=True):
        self.token, self.entered, self.left = token, [], []

    def around(self, function, compiling=False):
        return wrapped(function, self.enter, self.leave, lambda: compiling)

    def enter(self, args, kwargs):
        self.entered.append((args, kwargs))
        return self.token

    def leave(self, token, result):
        self.left.append((result, sys.exc_info()[1]))


def test_arguments_and_results_come_by_and_the_function_reads_as_before():
    log = Log()
    hooked = log.around(plain)
    assert hooked(1, 5, 6, key=7, x=8) == [1, 5, (6,), 7, {"x": 8}] == log.left[0][0]
    assert log.entered == [((1, 5, 6), {"key": 7, "x": 8})]
    for told in (inspect.signature, inspect.getsource, inspect.getdoc):
        assert told(hooked) == told(plain)
    hooked = log.around(len)
    assert (hooked.__module__, hooked.__qualname__, hooked("four")) == ("builtins", "len", 4)


@pytest.mark.parametrize(("token", "compiling", "entered"), [(None, False, 1), (True, True, 0)])
def test_without_a_token_and_under_a_compiler_nothing_is_left(token, compiling, entered):
    log = Log(token)
    assert log.around(plain, compiling)(1)
    assert (len(log.entered), log.left) == (entered, [])


def test_an_error_is_known_when_it_leaves_and_its_traceback_is_as_without():
    log = Log()
    hooked = log.around(raises)
    with pytest.raises(ZeroDivisionError) as caught:
        hooked()
    assert log.left == [(MISSING, caught.value)]
    if sys.version_info >= (3, 11):
        names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert names == ["test_an_error_is_known_when_it_leaves_and_its_traceback_is_as_without", "raises"]


@pytest.mark.skipif(not hasattr(signal, "raise_signal"), reason="signals of POSIX")
@pytest.mark.parametrize("where", ["enter", "leave", "call"])
def test_a_signal_while_we_are_at_work_reaches_the_caller(where):
    class Alarm(Exception):
        pass

    def handler(_number, _frame):
        raise Alarm

    def rings(here):
        return lambda *_: signal.raise_signal(signal.SIGUSR1) if here == where else 1

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(Alarm):
            wrapped(rings("call"), rings("enter"), rings("leave"), lambda: False)()
    finally:
        signal.signal(signal.SIGUSR1, before)


def hooked(work, **settings):
    """An object whose `divide` is hooked, and what the guard has lost."""
    lost = []
    guard = Guard(TORCH, Clock(), lambda hook, error: lost.append(hook), settings)
    kind = type("Kind", (), {"divide": lambda self, x: 6 // x})
    guard.surround("hook", kind, "divide", work)
    return kind(), lost


def test_a_hook_yields_where_the_call_is_made_and_knows_the_caller():
    seen = []

    def work(args, _kwargs):
        if args[1] == 3:
            return
        seen.append(sys._getframe(CALLER).f_code.co_name)
        seen.append((yield))
        seen.append(sys._getframe(CALLER).f_code.co_name)

    owner, lost = hooked(work)
    here = "test_a_hook_yields_where_the_call_is_made_and_knows_the_caller"
    assert (owner.divide(2), owner.divide(3)) == (3, 2) and seen == [here, 3, here]
    with pytest.raises(ZeroDivisionError):
        owner.divide(0)
    assert seen[3:] == [here, MISSING, here]
    other = Thread(target=owner.divide, args=(1,))
    other.start()
    other.join()
    assert len(seen) == 6 and lost == []


@pytest.mark.parametrize("faults", [["hook"], ["hook (end)"], ["all"], []])
def test_a_hook_that_fails_is_off_and_told_once(faults):
    calls = []

    def work(_args, _kwargs):
        calls.append(1)
        yield
        if not faults:
            raise RuntimeError

    owner, lost = hooked(work, faults=faults)
    assert [owner.divide(1) for _ in range(3)] == [6, 6, 6] and lost == ["hook"]
    assert len(calls) == (0 if faults in (["hook"], ["all"]) else 1)


@pytest.mark.parametrize("step", ["ready", "after"])
def test_one_that_fails_in_a_quick_step_is_off_and_told_once(step):
    lost, clock = [], Clock()
    clock.quick = True
    guard = Guard(TORCH, clock, lambda hook, error: lost.append(hook), {})
    kind = type("Kind", (), {"divide": lambda self, x: 6 // x})
    usual = Usual(OPTIMIZER, lambda args: step == "after" or 1 / 0, lambda result: 1 / 0)
    guard.between("hook", kind, "divide", lambda *_: None, lambda *_: None, usual)
    assert [kind().divide(1) for _ in range(3)] == [6, 6, 6] and lost == ["hook"] and clock.phase == OTHER
