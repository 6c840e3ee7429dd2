"""Pickles of plain values are read as Python reads them; what names code is refused before anything runs."""

import collections
import os
import pickle

import pytest

from gpudoctor.vitals.plain_pickle import NotPlain, load_plain

PLAIN = {"a": [1, 2.5, -3, 2**40, 2**63, None, True, False, "é" * 300, ()], "b": {}, 7: [(1,), (1, 2), (1, 2, 3)]}
PLAIN["again"] = [PLAIN["a"]] * 300 + [(1, 2, 3, 4)]


class Called:
    """Its pickle would write a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("protocol", [2, 5])
def test_plain_values_are_read(protocol):
    assert load_plain(pickle.dumps(PLAIN, protocol)) == PLAIN
    if protocol > 2:
        assert load_plain(pickle.dumps(b"x" * 300, protocol)) == b"x" * 300


@pytest.mark.parametrize("protocol", [2, 5])
def test_code_is_refused_and_not_run(protocol, tmp_path):
    path = str(tmp_path / "made")
    for value in (Called(path), {"segments": [Called(path)]}, os.system, collections.OrderedDict(a=1), 1j):
        with pytest.raises(NotPlain, match="names a class or a function"):
            load_plain(pickle.dumps(value, protocol))
    assert not os.path.exists(path)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "cut short"),
        (b"\x80\x04", "cut short"),
        (pickle.dumps(PLAIN)[:-3], "cut short"),
        (b"\x80\x04a.", "cut short"),
        (b"\x80\x04)e.", "cut short"),
        (b"\x80\x04h\x05.", "cut short"),
        (b"\x80\x04X\xff\xff\xff\xffx.", "cut short"),
        (b"\x80\x04)\x87.", "cut short"),
        (b"\x80\x04" + b"(" * 1000, "cut short"),
        (bytes(range(255, 0, -1)), "cut short"),
        (b"\x80\x04Pname\n.", "names a class"),
    ],
)
def test_what_is_damaged_or_odd_ends_in_a_clause(data, says):
    with pytest.raises(NotPlain, match=says):
        load_plain(data)
