"""Who an agent is, by launcher; contradictions are sentences."""

import pytest

from gpudoctor.errors import UsageError
from gpudoctor.preflight.place import PlaceFlags, find_place, first_host

TORCHRUN = {
    "RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "job7",
}  # fmt: skip
SRUN = {
    "SLURM_PROCID": "2", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0", "SLURM_STEP_ID": "1", "SLURM_JOB_ID": "4711",
    "SLURM_STEP_NODELIST": "node[03-05,9],login",
}  # fmt: skip


def place(environment=(), **flags):
    return find_place(PlaceFlags(**flags), dict(environment))


def test_alone_it_is_rank_0_of_1_at_any_free_port():
    found = place()
    assert (found.rank, found.world, found.head, found.port, found.source) == (0, 1, "127.0.0.1", 0, "alone")


def test_srun_says_rank_world_and_the_first_host():
    found = place(SRUN)
    assert (found.rank, found.world, found.head, found.source) == (2, 4, "node03", "srun")
    assert found.port == place({**SRUN, "SLURM_PROCID": "3"}).port
    assert found.token != place({**SRUN, "SLURM_JOB_ID": "4712"}).token


@pytest.mark.parametrize(
    ("environment", "flags", "words"),
    [
        ({}, {"rank": 4, "world": 4, "head": "h"}, "ranks go from 0 to 3"),
        ({}, {"rank": 1}, "--rank was given without --world"),
        ({"RANK": "1"}, {}, "RANK is set and WORLD_SIZE is not"),
        ({"RANK": "one", "WORLD_SIZE": "2"}, {}, "RANK=one is not a whole number"),
        (TORCHRUN, {"rank": 3, "world": 4, "head": "h"}, "flags says rank 3 of 4, torchrun says rank 3 of 8"),
        (TORCHRUN, {"rank": 2, "world": 8}, "two sources disagree"),
        ({**SRUN, "RANK": "0", "WORLD_SIZE": "4"}, {}, "srun says rank 2 of 4"),
        ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": "70000"}, {}, "would be 70000"),
    ],
)  # fmt: skip
def test_contradictions_are_sentences(environment, flags, words):
    with pytest.raises(UsageError, match=words):
        place(environment, **flags)


@pytest.mark.parametrize(
    ("nodes", "host"), [("node[03-05,9],login", "node03"), ("rack[1-2]n[07-09]", "rack1n07"), ("single", "single")]
)
def test_the_first_host_of_a_slurm_list(nodes, host):
    assert first_host(nodes) == host
