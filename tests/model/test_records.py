"""Frozen classes: as the standard library's, before their first instance and after it."""

import pickle
from dataclasses import FrozenInstanceError, asdict, field, replace

import pytest

from gpudoctor.model.records import frozen


@frozen
class Base:
    number: int
    memory: dict[str, int] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        assert self.number > 0, self.number


@frozen(kw_only=False)
class Place(Base):
    name: str = "here"


def test_a_frozen_class_is_a_dataclass_of_the_standard_library():
    one, same, other = Base(number=1), Base(number=1, memory={"a": 1}), replace(Base(number=1), number=2)
    assert one == same != other and hash(one) == hash(same) and repr(one) == "Base(number=1)"
    assert pickle.loads(pickle.dumps(other)) == other and asdict(other) == {"number": 2, "memory": {}}
    assert Place("there", number=1) == Place("there", number=1) not in (one, Place(number=1))
    for wrong, error in ((lambda: Base(number=0), AssertionError), (lambda: Base(1), TypeError)):
        with pytest.raises(error):
            wrong()
    with pytest.raises(FrozenInstanceError):
        one.number = 2
