"""What each sentence that calls something well requires: every need of every claim is missed once."""

import math
from dataclasses import replace

import pytest
from recordings import make_machine, make_process, make_recording, make_steps, record
from scripts import read_script
from toys import Blind, Broken, Sick, Well, toy_registry
from windows import make_rank, make_window, report_of

from gpudoctor.engine.comparison import compare
from gpudoctor.engine.examination import Request, examine
from gpudoctor.engine.selection import make_selection
from gpudoctor.model import Code, Patient, PatientKind, Sign, Signs
from gpudoctor.model.proof import Conclusion, Cure, Proof, TrialRow, TrialSummary
from gpudoctor.model.signs.kernel_log import KernelLog
from gpudoctor.model.signs.preflight import Figure, Loss, LossKind, Preflight, PreflightNode, Quantity, Stage, Unit
from gpudoctor.model.signs.process import Gap
from gpudoctor.model.signs.recording import Recording, RunEnd
from gpudoctor.model.signs.source import Source
from gpudoctor.testing import make_gpu, make_patient
from gpudoctor.trial.trial_verdict import verdict_words
from gpudoctor.vitals.build_recorded_patient import admit_recording

TRAINING = """
import torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    optimizer.zero_grad()
    model(torch.randn(4, 2)).sum().backward()
    optimizer.step()
"""


class LeftOut(Well):
    """A check that the user does not select."""

    code = Code("DATA902")
    name = "left-out"


def verdict(patient, *checks, problems=()):
    registry = toy_registry(*checks)
    select = [(str(check.code), "--select") for check in checks if check is not LeftOut]
    request = Request(registry=registry, selection=make_selection(registry, select, []))
    return examine(patient, request, problems).summary.verdict


def machine(*checks, gpus=1, problems=()):
    patient = make_patient(gpus=[make_gpu(index) for index in range(gpus)])
    return verdict(patient, *(checks or (Well,)), problems=problems)


def cluster(*checks, problems=(), lost=False, units=2):
    figures = (Figure(quantity=Quantity.MATMUL, value=1e11, dtype="fp32"),)
    loss = Loss(rank=1, node=1, stage=Stage.CARD, kind=LossKind.DIED, words="killed by signal 9")
    preflight = Preflight(
        mode="quick",
        backend="gloo",
        world=2,
        nodes=tuple(PreflightNode(index=index, name=f"n{index}", ranks=(index,)) for index in range(2)),
        units=tuple(Unit(node=index, local=0, device="cpu", name="a CPU", figures=figures) for index in range(units)),
        losses=(loss,) if lost else (),
    )
    patient = Patient(PatientKind.CLUSTER, "2 nodes", Signs(preflight=Sign.of("the preflight", preflight)))
    return verdict(patient, *(checks or (Well,)), problems=problems)


def script(text=TRAINING, *checks, problems=(), **signs):
    patient = make_patient(source=read_script(text), kind=PatientKind.SCRIPT, **({"gpus": []} | signs))
    return verdict(patient, *(checks or (Well,)), problems=problems)


def run(*checks, steps=200, ranks=((0, 1),), device="cpu", records=(), table=None, **changes):
    model = record("model", device=device, parameters=1000)
    processes = [
        make_process(table or make_steps(steps), rank=rank, world=world, records=[model, *records])
        for rank, world in ranks
    ]
    recording = make_recording(*processes, started="", **changes)
    return verdict(make_patient(recording=recording), *(checks or (Well,)))


def watch(looks=None, **changes):
    return report_of(
        make_window([make_rank(looks=looks or {"forward": 40, "backward": 60})], **changes)
    ).summary.verdict


def compared(second=None, **changes):
    """The verdict on a run and one in which every step waits longer."""
    runs = recorded(), second or recorded(data_wait=0.003, **changes)
    reports = [
        examine(
            make_patient(recording=item),
            Request(registry=toy_registry(), selection=make_selection(toy_registry(), [], [])),
        )
        for item in runs
    ]
    return compare(*runs, (reports[0], reports[1])).verdict


def recorded(steps=200, parameters=1000, crowded=False, **columns):
    model = record("model", device="cpu", parameters=parameters, name="Net")
    process = make_process(make_steps(steps, **columns), records=[model])
    if not crowded:
        return make_recording(process, started="")
    machine = make_machine(30, cpu=2.0, tree_cpu=0.8)
    return make_recording(process, started="", machine=machine, machine_facts={"cpus": 2, "machine_cpus": 2})


def tried(conclusion, **changes):
    """The verdict after the trial of one change."""
    facts = {"ratio": 1.5, "low": 1.4, "high": 1.6, "pairs": 5, "verdict": "faster", "loss": "identical"}
    proof = Proof(**(facts | changes))
    row = TrialRow(name="DATA003-workers", title="num_workers=4", conclusion=conclusion, proof=proof)
    return verdict_words(TrialSummary(step_seconds=0.1, warm_up_steps=5, steps=50, rows=(row,)), "It waits.")


def cured(gone):
    cure = Cure(code="MEM002", name="host-memory-leak", gone=gone, words="grew 1 MiB a step", steps=50)
    return tried(Conclusion.CURED, cure=cure, ratio=math.nan, low=math.nan, high=math.nan, verdict="unclear")


def saved_log(*checks, **changes):
    """The verdict on a saved kernel log without an Xid event."""
    log = KernelLog(origin="dmesg.log", messages=(), **({"read": 300} | changes))
    return verdict(admit_recording(saved(kernel_log=log, origin="kernel log"), ["dmesg.log"]), *(checks or (Well,)))


def saved(**parts):
    return Recording(path="/data/file", command=(), cwd="", started="", **parts)


SLOW = {"data_wait": 0.01}

CASES = {
    "This machine shows": (
        machine,
        {
            "no check crashed": lambda: machine(Well, Broken),
            "no check was left out": lambda: machine(Well, LeftOut),
            "a check passed": lambda: machine(Blind),
            "every file that was named was read": lambda: machine(problems=("the plug-in acme is broken",)),
            "a GPU of this machine answered": lambda: machine(gpus=0),
        },
    ),
    "shows no known fault": (
        script,
        {
            "no check crashed": lambda: script(TRAINING, Well, Broken),
            "no check was left out": lambda: script(TRAINING, Well, LeftOut),
            "a check passed": lambda: script(TRAINING, Blind),
            "every file that was named was read": lambda: script(problems=("job.out: check does not read logs",)),
            "a training was found in the files": lambda: script("import torch\nprint(torch.zeros(2))\n"),
            "the job's GPUs, if it requests any, are here": lambda: script(
                TRAINING.replace("Linear(2, 2)", "Linear(2, 2).cuda()")
            ),
        },
    ),
    "and no Xid event": (
        saved_log,
        {
            "a check passed that looks for Xid events": lambda: saved_log(Blind),
            "the whole log was read": lambda: saved_log(problems=("its packing is damaged",)),
        },
    ),
    "run: Little time is lost": (
        run,
        {
            "it ended well": lambda: run(end=RunEnd(exit_code=1, signal=None, seconds=30.0)),
            "no finding is above a note": lambda: run(Sick),
            "no check crashed": lambda: run(Well, Broken),
            "no check was left out": lambda: run(Well, LeftOut),
            "20 steady steps": lambda: run(steps=15),
            "its time is computation, or a finding explains the rest": lambda: run(table=make_steps(200, **SLOW)),
            "every rank reported": lambda: run(ranks=((0, 4), (1, 4), (3, 4))),
            "its GPU, if it uses one, was sampled": lambda: run(device="cuda:0"),
        },
    ),
    "watch: Little time is lost": (
        watch,
        {
            "30 stack samples": lambda: watch({"forward": 20}),
            "most of its time is computation": lambda: watch({"forward": 60, "data_wait": 10, "sync": 10}),
            "the GPUs were read, if there are any": lambda: watch(
                gaps=(Gap(panel="gpu", reason="NVIDIA driver: hung", fix="gpudoctor check"),)
            ),
        },
    ),
    "units passed": (
        lambda: cluster(),
        {
            "no check crashed": lambda: cluster(Well, Broken),
            "a check passed": lambda: cluster(Blind),
            "every file that was named was read": lambda: cluster(problems=("torch is not installed",)),
            "every rank took part to the end": lambda: cluster(lost=True),
            "a unit of each node was measured": lambda: cluster(units=1),
        },
    ),
    "The second run is": (
        compared,
        {
            "8 steady steps of each run": lambda: compared(steps=6),
            "an interval of the ratio without 1, and a change above 1 %": lambda: compared(recorded()),
            "one job: script, model, ranks and kind of step agree": lambda: compared(parameters=2000),
            "other processes left a CPU idle during both": lambda: compared(crowded=True),
        },
    ),
    "Proven: ": (
        lambda: tried(Conclusion.PROVEN),
        {
            "pairs of runs whose interval is above 1 for all looks": lambda: tried(
                Conclusion.PROVEN, verdict="no clear difference"
            ),
            "the loss did not change, if one was seen": lambda: tried(Conclusion.PROVEN, loss="moved"),
        },
    ),
    "Cured: ": (
        lambda: cured(True),
        {"a run with the remedy in which the ailment was looked for and is gone": lambda: cured(None)},
    ),
}


@pytest.mark.parametrize("sentence", CASES)
def test_only_what_has_all_is_called_well(sentence):
    well, needs = CASES[sentence]
    said = sentence.rpartition(": ")[2] or sentence
    assert said in well() and ", but " not in well()
    for need, without in needs.items():
        assert said not in without() or ", but " in without(), need


def test_a_script_that_python_cannot_parse_is_said_first_and_not_called_well():
    unread = (("bad.py", "bad.py: line 2: syntax error: invalid syntax"), ("b.py", "b.py: it is a binary file"))
    source = Sign.of("the source", Source(scripts=(), unread=unread))
    patient = make_patient(gpus=[], kind=PatientKind.SCRIPT)
    patient.signs = replace(patient.signs, source=source)
    said = verdict(patient, Well, problems=("bad.py: line 2: syntax error: invalid syntax",))
    assert said == (
        "bad.py: line 2: syntax error: invalid syntax (1 file more). gpudoctor examined only this machine: "
        "1 check passed."
    )


LOADING = """
import torch
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.rand(64, 2)), batch_size=8)
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for (x,) in loader:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
"""


class LoopRead(Well):
    """A check of training loops."""

    code = Code("LOOP903")
    name = "loop-read"


@pytest.mark.parametrize(
    ("said", "judged"),
    [
        (lambda: script(LOADING, Well, LoopRead), "can be read (data loading, training loop). Precision, "),
        (lambda: script(LOADING, Well), "can be read (data loading). Training loop, precision, "),
        (lambda: script(TRAINING, Well, LoopRead), "can be read (training loop). Precision, settings, gradients, "),
        (lambda: script(LOADING, Blind, LoopRead), "can be read (training loop). Data loading, "),
        (lambda: script(LOADING, Broken, LoopRead), "(training loop), but 1 check crashed. Data loading, "),
        (run, "Memory growth, loss, gradients, batch, labels and schedule were not judged."),
        (lambda: run(steps=15), "gpudoctor examined its parameters. Memory growth, loss, gradients, batch, "),
        (watch, " were not judged."),
        (machine, "GPU speed and link speed were not judged."),
    ],
)
def test_a_verdict_that_finds_nothing_says_what_was_judged(said, judged):
    assert judged in said()
