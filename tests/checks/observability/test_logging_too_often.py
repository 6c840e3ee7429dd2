from datetime import datetime, timezone
from pathlib import Path

import pytest
from edits import apply_edits
from recordings import make_machine, make_process, make_recording, make_steps, site
from scripts import script_patient

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.observability.logging_too_often import LoggingTooOften
from gpudoctor_rules.observability import logging_too_often

EXAMPLES = Path(__file__).parents[3] / "examples"


LOOP = """
    import sys, json, csv, logging
    import torch, wandb, mlflow
    from torch.utils.tensorboard import SummaryWriter
    from tqdm import tqdm
    writer = SummaryWriter()
    run = wandb.init()
    logger = logging.getLogger()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.randn(1000, 8))
    for step, x in enumerate(loader):
        optimizer.zero_grad()
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
        {statement}
"""


def look(statement, **limits):
    return examine(LoggingTooOften, script_patient(LOOP.format(statement=statement)), **limits)


@pytest.mark.parametrize(
    "statement",
    [
        "print(step)",
        "tqdm.write('x')",
        "json.dump({}, open('log.json', 'w'))",
        "accelerator.print(step)",
        "logger.info('x')",
        "mlflow.log_metric('loss', 1.0)",
        "writer.add_scalar('loss', loss, step)",
        "wandb.log({'loss': loss})",
        "self.logger.experiment.add_scalar('loss', loss, step)",
        "if writer is not None: writer.add_scalar('loss', loss, step)",
        "if step % 9 == 0: print(step)",
    ],
)
def test_sick_calls(statement):
    assert len(look(statement)) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "if step % 10 == 0: print(step)",
        "if step == 0: print(step)",
        "if torch.isnan(loss): print('NaN')",
        "logger.debug('x')",
        "torch.log(x)",
        "tqdm(loader)",
    ],
)
def test_healthy_calls(statement):
    assert look(statement) == []


def test_the_rule_puts_each_under_a_condition():
    path = EXAMPLES / "train_crops.py"
    patient = script_patient(path)
    [finding] = examine(LoggingTooOften, patient)
    [remedy] = prescribe(logging_too_often, finding, patient)
    cured = apply_edits(path.read_text(), remedy.edits)
    assert cured.count("if step % 50 == 0:") == 2
    assert examine(LoggingTooOften, script_patient(cured)) == []


@pytest.mark.parametrize(
    ("share", "others", "severity"),
    [
        (0.06, 0.1, Severity.WARNING),  # CPUs are idle: the price is the lines' own
        (0.06, 2.4, Severity.NOTE),  # each line gives its CPU to somebody else
        (0.2, 2.4, Severity.WARNING),
    ],
)
def test_the_price_of_lines_beside_other_processes(share, others, severity):
    steps = make_steps(2500, logging=0.01 * share / (1 - share))
    process = make_process(steps, records=[site("logging", "print", 25.0 * share, 2500)])
    recording = make_recording(
        process,
        started=datetime.fromtimestamp(process.wall, timezone.utc).isoformat(),
        machine=make_machine(30, cpu=1.58 + others, tree_cpu=1.5),
        machine_facts={"cpus": 4, "machine_cpus": 4},
    )
    [finding] = examine(LoggingTooOften, make_patient(recording=recording))
    assert finding.severity is severity
    assert ("other processes kept all CPUs busy" in finding.message) is (others > 1)


ENCLOSED = """
    import torch
    net = torch.nn.Linear(4, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)

    def fit(x, y):
        opt.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward()
        opt.step()
        return loss

    fast = torch.compile(fit)
    for n, (x, y) in enumerate(loader):
        print("loss", {call})
"""


@pytest.mark.parametrize("call", ["fit(x, y).item()", "fast(x, y).item()"])
def test_no_edit_encloses_a_step(call):
    patient = script_patient(ENCLOSED.format(call=call))
    [finding] = examine(LoggingTooOften, patient)
    assert [remedy.edits for remedy in prescribe(logging_too_often, finding, patient)] == [()]
