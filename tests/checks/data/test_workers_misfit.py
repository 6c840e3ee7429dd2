import pytest
from recordings import make_process, make_recording, make_steps, record
from scripts import script_patient

from gpudoctor.model import Severity
from gpudoctor.model.signs.job import Job, Profile
from gpudoctor.testing import examine, make_host, make_patient, make_survey, prescribe
from gpudoctor_checks.data.workers_misfit import WorkersMisfit
from gpudoctor_rules.advice import advice
from gpudoctor_rules.data.loaders import workers_misfit


def of_run(*, wait, starts, workers=2, batches=1000, persistent=False, n=240):
    """The findings on a run whose loader has 1000 batches, by its length, whatever the loop makes of it."""
    loader = record("loader", id=0, role="training", workers=workers, pin_memory=False, persistent=persistent,
                    batch_size=8, batches=batches, dataset="TensorDataset", path="/job/train.py", line=9)  # fmt: skip
    process = make_process(make_steps(n, data_wait=wait, starts=starts, noise=0.0), records=[loader])
    return examine(WorkersMisfit, make_patient(recording=make_recording(process)))


@pytest.mark.parametrize("batches", [1000, None, 3])
def test_sick_a_limit_ends_each_epoch_after_twenty_batches(batches):
    [finding] = of_run(wait=lambda i: 0.2 if i % 20 == 0 else 0.0002, starts=lambda i: i % 20 == 0, batches=batches)
    assert finding.severity is Severity.WARNING and finding.detail.kind == "respawned"
    assert "2 workers: started again for each epoch" in finding.message


def test_sick_a_new_iterator_for_each_batch():
    [finding] = of_run(wait=0.08, starts=1.0, workers=1)
    assert "1 worker: started for each step, 80 ms each" in finding.message
    [remedy] = prescribe((workers_misfit, *advice("data")), finding, make_patient())
    assert "once an epoch" in remedy.title


@pytest.mark.parametrize(
    ("wait", "starts", "workers"),
    [
        (lambda i: 0.2 if i % 20 == 7 else 0.0002, lambda i: i == 0, 2),  # long waits within an epoch: storage
        (0.0002, lambda i: i % 20 == 0, 2),  # epochs begin at once
        (0.02, 1.0, 0),  # a new iterator for each batch, without workers
        (0.02, lambda i: i % 20 == 0, 2),  # every batch is waited for
    ],
)
def test_healthy_waits_that_are_no_starts(wait, starts, workers):
    assert of_run(wait=wait, starts=starts, workers=workers) == []


def _on_cuda(workers: int | str, survey=None, job=None):
    script = f"""
        import torch
        THREADS = 48
        model = torch.nn.Linear(8, 8).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        items = torch.utils.data.DataLoader(torch.load("d.pt"), num_workers={workers})
        for x, y in items:
            loss = (model(x.cuda()) - y.cuda()).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
    return script_patient(script, host=make_host(cpus_affinity=2), survey=survey, job=job)


def test_healthy_workers_of_a_job_that_cannot_run_here_are_not_compared_with_the_cpus_here():
    assert examine(WorkersMisfit, _on_cuda(12, make_survey(pci_devices=(), device_nodes=()))) == []


def test_sick_workers_against_what_the_scheduler_grants_stay_a_warning():
    job = Job(profile=Profile.SLURM, cpus_granted=4)
    [finding] = examine(WorkersMisfit, _on_cuda(12, make_survey(pci_devices=(), device_nodes=()), job))
    assert finding.severity is Severity.WARNING and "4 CPUs from the scheduler for 1 process" in finding.message


def test_sick_a_number_from_elsewhere_is_not_written_over():
    for workers, steps, edits in (("THREADS", "Set THREADS, which the loader gets, to ", False), ("48", "", True)):
        patient = _on_cuda(workers)
        [finding] = examine(WorkersMisfit, patient)
        [found] = prescribe(workers_misfit, finding, patient)
        assert bool(found.edits) == edits and found.steps[0].startswith(steps)
