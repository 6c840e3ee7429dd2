"""Warnings of Python and of libraries' loggers are kept, each once, and what the program prints is as without us."""

import pytest
from packages import need
from probed import run_script, run_without

need("torch")

TALKING = """
import logging, sys, warnings

def quietly():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("only the program sees this")
    assert len(caught) == 1

log = logging.getLogger("datasets.arrow_writer")
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
schedule.step()  # early
quietly()
for step, (x, y) in enumerate(DataLoader(data(40), batch_size=8)):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    warnings.warn("the tokens do not fit")  # once
    log.warning("row %d of part %d is cut, key=sk-%s", step, 7, "a" * 40)  # cut
    log.info("not a warning")
    logging.getLogger("mine").warning("of the program")
logging.getLogger("transformers").setLevel(logging.ERROR)
logging.getLogger("transformers.trainer").warning("switched off by the program")
def shown(message, *rest, **more):
    print("mine:", message)
warnings.showwarning = shown
warnings.warn("by a showwarning of the program")
for number in range(300):
    warnings.warn(chr(200 + number) + "x" * 5000)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_script(tmp_path_factory.mktemp("words"), TALKING)


def test_the_streams_are_as_without_us(run):
    plain = run_without(run.script)
    assert (run.result.stdout, run.result.stderr) == (plain.stdout, plain.stderr)
    assert "Detected call of `lr_scheduler.step()`" in plain.stderr and "mine: by a showwarning" in plain.stdout


def test_each_is_kept_once_with_its_count_and_place(run):
    told = {}
    for record in run.rank.of("warning"):  # the last of a text counts
        told[record["text"]] = record
    early = next(item for text, item in told.items() if text.startswith("Detected call of"))
    assert (early["library"], early["line"], early["count"]) == ("torch", run.line("early"), 1)
    once = told["the tokens do not fit"]
    assert (once["library"], once["line"], once["count"], once["path"]) == ("", run.line("once"), 1, str(run.script))
    cut = next(item for text, item in told.items() if text.startswith("row 0 of part 7"))
    assert (cut["library"], cut["line"], cut["count"]) == ("datasets", run.line("cut"), 5)
    assert not [text for text in told if "aaaa" in text]
    assert "by a showwarning of the program" in told
    unseen = ("only the program sees this", "not a warning", "of the program", "switched off by the program")
    assert not set(unseen) & set(told)


def test_they_are_few_and_short(run):
    records = run.rank.of("warning")
    assert 60 <= len(records) <= 160 and max(len(record["text"]) for record in records) <= 500
    assert not run.rank.of("lost")
