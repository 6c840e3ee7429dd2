"""ENV006: shared memory against the loader's workers."""

import pytest
from configs import config_patient
from scripts import script_patient

from gpudoctor.model import Absent, Resource, Severity, Unavailable
from gpudoctor.model.signs.job import Job, Profile
from gpudoctor.testing import GIB, examine, make_gpu, make_host, make_patient, prescribe
from gpudoctor_checks.environment.shm_too_small import ShmTooSmall
from gpudoctor_rules.advice import advice
from gpudoctor_rules.environment.host import shm_too_small

MIB = 1 << 20
RULES = (shm_too_small, *advice("environment"))
SCRIPT = """
    import argparse, torch
    from torch.utils.data import DataLoader
    from torchvision import transforms
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int{default})
    args = parser.parse_args()
    crop = transforms.RandomResizedCrop(224)
    loader = DataLoader(data, batch_size=256, num_workers={workers})
    for x in loader:
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
"""


def script(workers, default=", default=4", **signs):
    return script_patient(SCRIPT.format(workers=workers, default=default), **signs)


def docker(shm=64 * MIB, **changes):
    return make_host(shm_total=shm, container="docker", **changes)


CONFIG = "output_dir: out\nlearning_rate: 1e-4\ndataloader_num_workers: 6\n"
RANKS = Job(profile=Profile.TORCHRUN, ranks_per_node=4)
ASKED = Job(profile=Profile.KUBERNETES, shared_memory_granted=256 * MIB, script_path="pod.yaml")
ALLOCATED = {"environment": {"SLURM_JOB_ID": "7"}, "gpus": [], "job": Job(profile=Profile.SLURM)}
ERROR, WARNING = Severity.ERROR, Severity.WARNING


@pytest.mark.parametrize(
    ("patient", "severity", "words"),
    [
        (script("8", host=docker()), ERROR, "64 MiB"),
        (script("args.workers", host=docker()), ERROR, "1 GiB"),
        (config_patient(CONFIG, host=docker()), ERROR, ""),
        (make_patient(host=docker(), gpus=[make_gpu()]), Severity.NOTE, ""),
        (script("args.workers", default="", host=docker()), Severity.NOTE, ""),  # only a run tells
        (script("0", host=docker(), job=RANKS), WARNING, "4 ranks"),
        (script("8", host=make_host(), job=ASKED), ERROR, "256 MiB"),
        (script("8", host=docker(), **ALLOCATED), ERROR, ""),  # inside its allocation it has this machine's memory
    ],
)
def test_sick_by_workers_ranks_and_what_is_free(patient, severity, words):
    [finding] = examine(ShmTooSmall, patient)
    assert finding.severity is severity and words in finding.message
    assert (finding.cost.breaks is not None) == (severity is ERROR) and Resource.SHARED_MEMORY in finding.scarce


@pytest.mark.parametrize(
    "patient",
    [
        script("8", host=docker(16 * GIB)),  # enough
        script("0", host=docker()),  # no workers
        make_patient(host=docker()),  # no purpose
        script("8", host=docker(), job=Job(profile=Profile.NONE, shared_memory_granted=16 * GIB)),  # launch gives more
    ],
)
def test_healthy(patient):
    assert examine(ShmTooSmall, patient) == []


def test_healthy_without_any_it_is_a_skip():
    with pytest.raises(Unavailable, match="no /dev/shm"):
        examine(ShmTooSmall, script("8", host=make_host(shm_total=Absent("no /dev/shm on this system"))))


def small(container, **changes):
    return make_host(shm_total=64 * MIB, container=container, **changes)


OF_EIGHT = {"job": Job(profile=Profile.TORCHRUN, ranks_per_node=8)}


@pytest.mark.parametrize(
    ("host", "signs", "gib", "line"),
    [
        (small("docker"), {}, 2, "docker run --shm-size=2g ..."),
        (small("kubernetes"), {}, 2, "volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 2Gi}}]"),
        (small(None), {}, 2, "sudo mount -o remount,size=2G /dev/shm"),
        (docker(memory_total=256 * GIB), OF_EIGHT, 16, "docker run --shm-size=16g ..."),  # it grows with the ranks
    ],
)
def test_remedy_names_the_line_for_the_container_and_the_size(host, signs, gib, line):
    patient = script("8", host=host, **signs)
    [finding] = examine(ShmTooSmall, patient)
    [remedy] = prescribe(RULES, finding, patient)
    assert line in remedy.steps and remedy.title == f"give /dev/shm {gib} GiB"
    assert remedy.uses == {Resource.HOST_MEMORY}


@pytest.mark.parametrize("job", [Job(profile=Profile.SLURM), Job(profile=Profile.KUBERNETES)])
def test_the_memory_of_another_machine_is_not_judged(job):
    roomy = make_host(shm_total=16 * GIB)
    with pytest.raises(Unavailable, match="another machine"):
        examine(ShmTooSmall, script("8", host=roomy, gpus=[], environment={}, job=job))
