"""Search of the manual: what people type leads to the check that they mean, among the first few."""

import pytest

from gpudoctor.engine.manual_search import search
from gpudoctor.engine.registry import load_registry

REGISTRY = load_registry()


@pytest.mark.parametrize(
    ("query", "name", "place"),
    [
        ("oom", "out-of-memory", 1),
        ("nan", "nan-loss", 2),
        ("my loss is nan", "nan-loss", 1),
        ("loss spikes", "loss-trouble", 3),
        ("leaks", "gpu-memory-leak", 2),
        ("hang", "hang", 5),
        ("gpu utilization low", "low-utilization", 1),
        ("shuffle", "not-shuffled", 3),
        ("too many dataloader workers", "workers-misfit", 2),
        ("learning rate", "learning-rate-out-of-band", 1),
        ("wandb.log", "logging-too-often", 1),
        ("NCCL timeout", "collective-timeout", 1),
        ("job did not start", "start-failed", 2),
        ("slow", "low-utilization", 1),
        ("slow", "slow-preprocessing", 2),
        ("loader", "loader-bound", 3),
        # messages, as they are pasted
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "out-of-memory", 1),
        ("RuntimeError: mat1 and mat2 must have the same dtype, but got Half and Float", "tensor-mismatch", 1),
        ("OSError: [Errno 28] No space left on device", "disk-too-small", 1),
        ("RuntimeError: DataLoader worker is killed by signal: Bus error.", "shm-too-small", 1),
        ("Watchdog caught collective operation timeout", "collective-timeout", 1),
        ("CUDA out of memory", "out-of-memory", 1),
    ],
)
def test_what_people_type_leads_to_the_check(query, name, place):
    found = [hit.check.name for hit in search(REGISTRY, query)]
    assert name in found[:place], found


def test_words_of_no_page_find_nothing_and_the_hits_are_few():
    assert search(REGISTRY, "qqzzx") == [] == search(REGISTRY, "the of")
    assert 0 < len(search(REGISTRY, "training")) <= 12
