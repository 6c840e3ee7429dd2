import pytest
from preflights import loss, patient

from gpudoctor.model.signs.preflight import LossKind, Stage
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.node.rank_lost import RankLost
from gpudoctor_rules.advice import advice


@pytest.mark.parametrize(
    ("kind", "words", "message"),
    [
        (
            LossKind.DIED,
            "killed by signal 9",
            "Rank 2 on node02 died in the test of pairs of nodes: killed by signal 9.",
        ),
        (
            LossKind.SILENT,
            "no answer for 15 s",
            "Rank 2 on node02 stopped answering in the test of pairs of nodes: no answer for 15 s.",
        ),
        (LossKind.STUCK, "", "Rank 2 on node02 did not finish in the test of pairs of nodes."),
    ],
)
def test_sick_a_rank_is_lost(kind, words, message):
    found = patient(losses=(loss(2, kind, Stage.PAIRS, words),))
    [finding] = examine(RankLost, found)
    assert finding.message == message
    assert [item.id for item in prescribe(advice("node"), finding, found)] == ["NODE009-leave-out", "NODE009-look"]


def test_the_stack_is_named():
    found = patient(losses=(loss(2, LossKind.STUCK, stack=("worker.py:10 main", "all_reduce.py:31 wait")),))
    [finding] = examine(RankLost, found)
    assert finding.message.endswith("It stood at all_reduce.py:31 wait.")


def test_healthy_nobody_is_lost():
    assert examine(RankLost, patient()) == []
    assert examine(RankLost, patient(losses=(loss(3, LossKind.NEVER_CAME, Stage.ARRIVE),))) == []
