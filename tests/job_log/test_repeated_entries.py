"""Entries that differ in numbers only are not built, and a dump says the same as if they all were."""

import pickle
import random

import pytest
from flight_dumps import as_torch_pickles, make_ranks

from gpudoctor.vitals.flight_recorder import condense as module
from gpudoctor.vitals.flight_recorder.condense import Dictionary, condense
from gpudoctor.vitals.flight_recorder.repeated_entries import load_entries
from gpudoctor.vitals.plain_pickle import NotPlain


def steps(count, seed=0, start=0):
    """A rank that trains: collectives in two groups, sends, odd entries between them, the last ones open."""
    chance = random.Random(seed)
    [rank] = make_ranks(1, {"tp": [[0]]})
    rank.sequences = dict.fromkeys(("default_pg", "tp", "p2p tp"), start)
    for step in range(count):
        for layer in range(6):
            rank.call("all_reduce", "tp", sizes=[[4096, 64 * layer]], line=40 + layer)
        rank.call("_reduce_scatter_base", sizes=[[1 << 20]], outputs=[[1 << 16]])
        if step % 3 == 0:
            rank.call(chance.choice(("send 0->1", "recv 0<-1")), "tp", state=chance.choice(STATES))
        if chance.random() < 0.05:
            rank.call("broadcast", sizes=[[step, 3]], line=90)
        if chance.random() < 0.05:  # coalesced: the same number again
            rank.sequences["default_pg"] -= 1
            rank.call("all_gather")
    for state in chance.sample(STATES, 2):
        rank.call("all_reduce", "tp", state=state, line=chance.choice((41, 42)))
    return rank


STATES = ("scheduled", "started", "completed")


def dump(rank):
    """What torch writes: stacks share their frames."""
    frames = {}
    value = rank.dump()
    for entry in value["entries"]:
        entry["frames"] = [frames.setdefault(tuple(frame.values()), frame) for frame in entry["frames"]]
    return as_torch_pickles(value)


def both(data, monkeypatch):
    """What is said of a dump, and what is said of it if all of its entries are built."""
    said = []
    for load in (load_entries, lambda _data, _layouts: None):
        monkeypatch.setattr(module, "load_entries", load)
        dictionary = Dictionary()
        try:
            found = condense(data, dictionary)
        except NotPlain as reason:
            said.append(str(reason))
        else:
            said.append((found, dictionary.operations, dictionary.sites, dictionary.members))
    return said


@pytest.mark.parametrize("seed", range(6))
def test_what_is_said_is_the_same(monkeypatch, seed):
    data = dump(steps(60, seed, start=random.Random(seed).choice((0, 200, 65_400, 70_000))))
    assert pickle.loads(data)["entries"]
    one, other = both(data, monkeypatch)
    assert one == other and one[0][1] > 400


def test_few_entries_are_built():
    loaded = load_entries(dump(steps(250, start=70_000)), {})
    assert len(loaded.places) > 1_700
    assert len(loaded.value["entries"]) < 200


def test_what_one_dump_shows_of_the_bytes_is_right_for_the_next(monkeypatch):
    alone = [both(dump(steps(40, seed)), monkeypatch)[0] for seed in range(4)]
    monkeypatch.setattr(module, "load_entries", load_entries)
    dictionary = Dictionary()
    assert [condense(dump(steps(40, seed)), dictionary) for seed in range(4)] == [item[0] for item in alone]


@pytest.mark.parametrize("at", [0.2, 0.6, 0.97])
def test_a_dump_that_is_cut_is_damaged(monkeypatch, at):
    data = dump(steps(60))
    assert both(data[: int(len(data) * at)], monkeypatch) == ["it is damaged or cut short"] * 2


def test_code_among_many_alike_entries_is_refused(monkeypatch):
    data = dump(steps(60))
    call = b"cos\nsystem\n(X\x04\x00\x00\x00true\x85R"
    middle = data.index(b"}(", len(data) // 2)
    for hostile in (data[:-2] + call + data[-2:], data[:middle] + call + data[middle:]):
        one, other = both(hostile, monkeypatch)
        assert one == other and "names a class or a function" in one


def test_damage_in_the_middle_changes_nothing_of_the_answer(monkeypatch):
    data, chance = dump(steps(40)), random.Random(5)
    numbers = b"rRjJ"  # a number behind these makes the reader take gigabytes
    for _ in range(100):
        hurt = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(hurt) // 2, len(hurt))
            if not set(hurt[at - 5 : at + 1]) & set(numbers):
                hurt[at] = chance.choice([code for code in range(256) if code not in numbers])
        one, other = both(bytes(hurt), monkeypatch)
        assert one == other


def test_a_number_that_says_what_an_entry_is_makes_no_two_alike(monkeypatch):
    rank = steps(40)
    for number, entry in enumerate(rank.entries):
        entry["retired"] = number % 2
    one, other = both(dump(rank), monkeypatch)
    assert one == other
