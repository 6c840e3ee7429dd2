from dataclasses import replace

import pytest
from scripts import PATIENTS, script_patient

from gpudoctor.model import Applicability, Cost, KeywordEdit
from gpudoctor.model.signs.job import Job, Profile
from gpudoctor.testing import examine, make_host, prescribe
from gpudoctor_checks.data.loader_bound import LoaderBound
from gpudoctor_rules.data.loaders import loader_bound

FOLDER = PATIENTS / "DATA001"


@pytest.mark.parametrize(
    ("host", "job", "workers"),
    [
        ({"cpus_affinity": 8}, None, 7),
        ({"cpus_affinity": 64}, None, 16),
        ({"cpus_affinity": 64, "cpu_quota": 4.0}, None, 3),
        ({"cpus_affinity": 64}, Job(profile=Profile.TORCHRUN, ranks_per_node=8), 7),
        ({"cpus_affinity": 64}, Job(profile=Profile.SLURM, ranks_per_node=4, cpus_granted=24), 5),
    ],
)
def test_sick_rule_names_the_number_for_this_machine(host, job, workers):
    patient = script_patient(FOLDER / "sick_plain_loop.py", host=make_host(**host), job=job)
    [finding] = examine(LoaderBound, patient)
    remedy = prescribe(loader_bound, finding, patient)[0]
    assert remedy.sets == (("DataLoader.num_workers", str(workers)),)
    assert remedy.title.startswith(f"num_workers={workers}, persistent_workers=True")
    [edit] = remedy.edits
    assert isinstance(edit, KeywordEdit)
    assert dict(edit.set)["num_workers"] == str(workers)
    assert (edit.line, edit.column) == (finding.span.line, finding.span.column)
    assert remedy.effect is None  # nobody knows before a run


def test_sick_trainer_is_answered_with_its_own_keyword():
    patient = script_patient(FOLDER / "sick_trainer.py", host=make_host(cpus_affinity=4))
    [finding] = examine(LoaderBound, patient)
    remedy = prescribe(loader_bound, finding, patient)[0]
    assert dict(remedy.edits[0].set)["dataloader_num_workers"] == "3"


@pytest.mark.parametrize(
    "call", ["DataLoader(data, 32, True, None, None, 0)", 'DataLoader(data, **{"num_workers": 0, "batch_size": 32})']
)
def test_sick_call_that_a_keyword_would_break_gets_steps_without_an_edit(call):
    text = (FOLDER / "sick_python_loop.py").read_text().replace("DataLoader(data, batch_size=32)", call)
    patient = script_patient(text, host=make_host(cpus_affinity=8))
    [finding] = examine(LoaderBound, patient)
    remedy = prescribe(loader_bound, finding, patient)[0]
    assert remedy.edits == ()
    assert "num_workers=7" in remedy.steps[0]


def test_sick_stream_has_to_be_split_between_workers():
    text = """
        import json
        import torch
        from torch.utils.data import DataLoader, IterableDataset

        class Stream(IterableDataset):
            def __init__(self, path):
                self.path = path

            def __iter__(self):
                with open(self.path) as lines:
                    for line in lines:
                        yield torch.tensor(json.loads(line)["x"])

        model = torch.nn.Linear(4, 1)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in DataLoader(Stream("rows.jsonl"), batch_size=32):
            opt.zero_grad()
            model(x).mean().backward()
            opt.step()
    """
    patient = script_patient(text, host=make_host())
    [finding] = examine(LoaderBound, patient)
    remedy = prescribe(loader_bound, finding, patient)[0]
    assert remedy.applicability is Applicability.UNSAFE
    assert any("get_worker_info" in step for step in remedy.steps)


@pytest.mark.parametrize(("cpus", "cuda", "most"), [(2, True, 2.857), (2, False, 2.0), (8, True, 3.333)])
def test_the_gain_is_bounded_by_the_cpus(cpus, cuda, most):
    patient = script_patient(FOLDER / "sick_plain_loop.py", host=make_host(cpus_affinity=cpus))
    [finding] = examine(LoaderBound, patient)
    detail = replace(finding.detail, cuda=cuda, workers=0, cpus_used=0.5, cpus_reached=float(cpus))
    measured = replace(finding, cost=Cost(step_share=0.7), detail=detail)
    assert prescribe(loader_bound, measured, patient)[0].effect.high == pytest.approx(most)


@pytest.mark.parametrize(("cuda", "cpus", "threads"), [(False, 4, "1"), (True, 4, None), (False, 64, None)])
def test_workers_get_the_cpus_that_threads_of_a_training_without_a_gpu_hold(cuda, cpus, threads):
    patient = script_patient(FOLDER / "sick_plain_loop.py", host=make_host(cpus_affinity=cpus))
    [finding] = examine(LoaderBound, patient)
    measured = replace(finding, cost=Cost(step_share=0.7), detail=replace(finding.detail, cuda=cuda, workers=0))
    remedy = prescribe(loader_bound, measured, patient)[0]
    assert dict(remedy.override)["DataLoader.num_workers"] == ("16" if cpus == 64 and cuda else "3")
    assert dict(remedy.override).get("torch.num_threads") == threads
    assert len(remedy.edits) == (1 if threads is None else 2)
    assert ("set_num_threads" in remedy.title) is (threads is not None)
