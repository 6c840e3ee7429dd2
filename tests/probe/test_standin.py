"""A stand-in for a callable without Python code: it is called as the original, and loses no exception."""

import _thread
import signal
import traceback

import pytest

from gpudoctor.probe.standin import Standin


class Alarm(Exception):
    """Raised by a signal handler of the program."""


@pytest.fixture
def alarm():
    def handler(number, frame):
        raise Alarm("two", number)

    before = signal.signal(signal.SIGUSR1, handler)
    yield signal.SIGUSR1
    signal.signal(signal.SIGUSR1, before)


def made(original, left, leave=None):
    return Standin(original, lambda *_: "token", leave or (lambda token, _: left.append(token)))


def test_what_raises_leaves_too():
    left = []
    with pytest.raises(ValueError):
        made(int, left)("x")
    assert left == ["token"]
    assert made(int, left)("7") == 7
    assert left == ["token"] * 2


@pytest.mark.skipif(not hasattr(signal, "raise_signal"), reason="signals of POSIX")
def test_a_signal_during_the_call_reaches_the_caller(alarm):
    """The handler runs when the C call is over: at the entry of the finalizer."""
    left = []
    call = made(_thread.interrupt_main, left)
    for _ in range(20):
        with pytest.raises(Alarm) as caught:
            call(alarm)
        assert caught.value.args == ("two", alarm)
        assert [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)] == [
            "test_a_signal_during_the_call_reaches_the_caller"
        ]
    assert left == ["token"] * 20


def test_a_signal_while_we_are_at_work_reaches_the_caller(alarm):
    done = []

    def leave(token, _):
        signal.raise_signal(alarm)

    call = made(len, [], leave)
    with pytest.raises(Alarm):
        done.append(call("four"))
        done.append("next line")
    assert done == []
