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
    return make_host(shm_total=shm, shm_free=shm, container="docker", **changes)


@pytest.mark.parametrize("workers", ["8", "args.workers"])
def test_sick_workers_with_dockers_default(workers):
    [finding] = examine(ShmTooSmall, script(workers, host=docker()))
    assert finding.severity is Severity.ERROR
    assert finding.cost.breaks
    assert "64 MiB" in finding.message and "1 GiB" in finding.message
    assert finding.span is not None and finding.span.line == 9
    assert Resource.SHARED_MEMORY in finding.scarce


@pytest.mark.parametrize(
    ("patient", "severity"),
    [
        (config_patient("output_dir: out\nlearning_rate: 1e-4\ndataloader_num_workers: 6\n", host=docker()), Severity.ERROR),
        (make_patient(host=docker(), gpus=[make_gpu()]), Severity.WARNING),
        (script("args.workers", default="", host=docker()), Severity.WARNING),  # only a run tells
    ],
)  # fmt: skip
def test_sick_by_what_is_known_of_the_workers(patient, severity):
    [finding] = examine(ShmTooSmall, patient)
    assert finding.severity is severity and (finding.cost.breaks is not None) == (severity is Severity.ERROR)


def test_sick_ranks_need_it_even_without_workers():
    job = Job(profile=Profile.TORCHRUN, ranks_per_node=4)
    [finding] = examine(ShmTooSmall, script("0", host=docker(), job=job))
    assert finding.severity is Severity.WARNING
    assert "4 ranks" in finding.message


def test_sick_full_of_left_overs():
    patient = script("2", host=docker(8 * GIB))
    [finding] = examine(ShmTooSmall, script("2", host=make_host(shm_total=64 * GIB, shm_free=200 * MIB)))
    assert "200 MiB" in finding.message
    [remedy] = prescribe((shm_too_small, *advice("environment")), finding, patient)
    assert any(step.startswith("rm /dev/shm/torch_") for step in remedy.steps)


def test_sick_the_size_that_the_launch_asks_for():
    job = Job(profile=Profile.KUBERNETES, shared_memory_granted=256 * MIB, script_path="pod.yaml")
    assert "256 MiB" in examine(ShmTooSmall, script("8", host=make_host(), job=job))[0].message


@pytest.mark.parametrize(
    "patient",
    [
        script("8", host=docker(16 * GIB)),  # enough
        script("0", host=docker()),  # no workers
        make_patient(host=docker()),  # no purpose
        make_patient(host=make_host()),  # bare metal
        script("8", host=docker(), job=Job(profile=Profile.NONE, shared_memory_granted=16 * GIB)),  # launch gives more
    ],
)
def test_healthy(patient):
    assert examine(ShmTooSmall, patient) == []


def test_healthy_without_any_it_is_a_skip():
    with pytest.raises(Unavailable, match="no /dev/shm"):
        examine(ShmTooSmall, script("8", host=make_host(shm_total=Absent("no /dev/shm on this system"))))


@pytest.mark.parametrize(
    ("container", "line"),
    [
        ("docker", "docker run --shm-size=2g ..."),
        ("podman", "podman run --shm-size=2g ..."),
        ("kubernetes", "volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 2Gi}}]"),
        (None, "sudo mount -o remount,size=2G /dev/shm"),
    ],
)
def test_remedy_names_the_line_for_the_container(container, line):
    host = make_host(shm_total=64 * MIB, shm_free=64 * MIB, container=container)
    patient = script("8", host=host)
    [finding] = examine(ShmTooSmall, patient)
    [remedy] = prescribe((shm_too_small, *advice("environment")), finding, patient)
    assert line in remedy.steps
    assert remedy.uses == {Resource.HOST_MEMORY}


def test_remedy_grows_with_the_ranks_and_stays_below_half_of_the_memory():
    job = Job(profile=Profile.TORCHRUN, ranks_per_node=8)
    for memory, size in ((256, 16), (12, 6)):
        patient = script("8", host=docker(memory_total=memory * GIB), job=job)
        [finding] = examine(ShmTooSmall, patient)
        [remedy] = prescribe((shm_too_small, *advice("environment")), finding, patient)
        assert remedy.title == f"give /dev/shm {size} GiB"


@pytest.mark.parametrize(
    "job",
    [
        Job(profile=Profile.SLURM),
        Job(profile=Profile.KUBERNETES),
        Job(profile=Profile.NONE, script_path="launch.sh", gpus_granted=2),
    ],
)
def test_the_memory_of_another_machine_is_not_judged(job):
    roomy = make_host(shm_total=16 * GIB, shm_free=16 * GIB)
    with pytest.raises(Unavailable, match="another machine"):
        examine(ShmTooSmall, script("8", host=roomy, gpus=[], environment={}, job=job))


def test_inside_its_allocation_the_job_has_this_machines_memory():
    patient = script("8", host=docker(), environment={"SLURM_JOB_ID": "7"}, gpus=[], job=Job(profile=Profile.SLURM))
    [finding] = examine(ShmTooSmall, patient)
    assert finding.severity is Severity.ERROR
