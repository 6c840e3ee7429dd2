"""Whatever is typed, `gpudoctor estimate` ends in an answer or in one sentence, never in a traceback."""

import contextlib
import io
import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from sarif_schema import validate

import gpudoctor
from gpudoctor.cli import main
from gpudoctor.estimate import job, presets
from gpudoctor.report.estimate_words import FLAGS

SCHEMA = json.loads((Path(gpudoctor.__file__).parent / "report/estimate-1.schema.json").read_text("utf-8"))

NUMBERS = st.sampled_from(["-1", "0", "1", "2", "3", "7", "8", "64", "4k", "1000000", "10000000000", "nan", "x", ""])
CHOICES = {
    "method": job.METHODS, "dtype": job.DTYPES, "mixed-precision": job.MIXED, "optimizer": job.OPTIMIZERS,
    "attention": job.ATTENTION, "loss": job.LOSSES, "parallel": job.PARALLEL, "offload": job.OFFLOAD,
    "mode": job.MODES, "kv-dtype": job.KV_DTYPES, "stack": job.STACKS, "quant": job.QUANTS,
    "lora-dtype": job.DTYPES,
}  # fmt: skip
COUNTS = (
    "seq", "batch", "accumulate", "lora-rank", "gpus", "nodes", "tp", "pp", "cp", "ep", "context", "concurrency",
    "quant-group",
)  # fmt: skip
SWITCHES = ("experts-quantized", "outputs-kept", "lora-fused", "lora-dora", "fused-norm", "compiled")


def said_as(name, value):
    field = name.replace("-", "_")
    return [f"--{name}={value}"] if field in FLAGS else ["--set", f"{field}={value}"]


@st.composite
def words(draw):
    said = ["--model", draw(st.sampled_from([*presets(), "7b", "70b", "nothing"]))]
    for name in draw(st.lists(st.sampled_from(list(CHOICES)), max_size=5, unique=True)):
        said += said_as(name, draw(st.sampled_from(CHOICES[name])))
    for name in draw(st.lists(st.sampled_from(COUNTS), max_size=4, unique=True)):
        said += said_as(name, draw(NUMBERS))
    for name in draw(st.lists(st.sampled_from(SWITCHES), max_size=2, unique=True)):
        said += said_as(name, draw(st.sampled_from(["yes", "no"])))
    said += draw(st.sampled_from([[], ["--gpu", "24GiB"], ["--gpu", "H200"], ["--gpu", "nope"]]))
    said += draw(st.sampled_from([[], ["--no-checkpointing"], ["--set", "checkpointing=selective"]]))
    said += draw(st.lists(st.sampled_from(["--explain", "--fit"]), max_size=2, unique=True))
    return said


def run(said):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["estimate", *said])
    return code, out.getvalue(), err.getvalue()


@settings(max_examples=60, deadline=None)
@given(words(), st.sampled_from(["text", "json", "markdown"]))
def test_an_answer_or_a_sentence(said, form):
    code, out, err = run([*said, "--format", form])
    assert code in (0, 1, 2), (said, err)
    if code == 2:
        assert out == ""
        assert err.startswith("gpudoctor: ")
        assert err.count("\n") == 1
        return
    assert err == ""
    if form == "json":
        validate(json.loads(out), SCHEMA)
    elif form == "text":
        assert max(map(len, out.splitlines())) <= 80
