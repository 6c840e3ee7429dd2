from preflights import loss, patient

from gpudoctor.model.signs.preflight import LossKind, Stage
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.node.node_missing import NodeMissing
from gpudoctor_rules.advice import advice


def test_sick_two_ranks_never_came():
    lost = [loss(rank, LossKind.NEVER_CAME, Stage.ARRIVE, "nothing came within 20 s") for rank in (4, 5)]
    found = patient(4, world=6, losses=tuple(lost))
    [finding] = examine(NodeMissing, found)
    assert finding.message == "Ranks 4, 5 of 6 never came: nothing came within 20 s. 4 ranks arrived."
    assert [item.id for item in prescribe(advice("node"), finding, found)] == ["NODE008-absent"]


def test_sick_a_rank_with_another_world_size():
    found = patient(4, losses=(loss(3, LossKind.REFUSED, Stage.ARRIVE, "its world size is 8, that of rank 0 is 4"),))
    [finding] = examine(NodeMissing, found)
    assert finding.message == "Rank 3 on node03 was refused: its world size is 8, that of rank 0 is 4."
    assert [item.id for item in prescribe(advice("node"), finding, found)] == ["NODE008-refused"]


def test_healthy_everybody_came_and_one_died_later():
    assert examine(NodeMissing, patient(4)) == []
    assert examine(NodeMissing, patient(4, losses=(loss(1),))) == []
