"""A synthetic job in every format that people read, and at both widths of a terminal."""

import json
from dataclasses import replace

import pytest
from sample_reports import healthy_report
from sarif_schema import report_schema, validate

from gpudoctor.model.run import MemoryRow, SyntheticSummary
from gpudoctor.report import FORMATS, render
from gpudoctor.report.run_words import memory_rows, speed_words
from gpudoctor.ui.console.text_report import render_text

GIB = 1 << 30
JOB = SyntheticSummary(
    model="llama-2-7b", method="QLoRA r16", parameters=6_738_415_616, job="sequence 2,048, batch 1, bf16, adamw",
    script="/home/me/rec/llama-2-7b-qlora.py", kind="cuda", device="NVIDIA H100 80GB HBM3", device_bytes=80 * GIB,
    ranks=1, versions={"torch": "2.13.0"},
    memory=(
        MemoryRow(instant="load", title="loading the model", estimated=4 * GIB, measured=4 * GIB),
        MemoryRow(instant="peak", title="the peak of a step", estimated=int(6.4 * GIB), measured=int(6.5 * GIB)),
    ),
    notes=("the driver counts 7.1 GiB",), assumptions=("the size '7b' is taken for llama-2-7b",),
    estimated_peak=int(6.4 * GIB), run_peak=int(6.51 * GIB), step_seconds=0.5, tokens_per_step=2048,
    tokens_per_second=4096.0, flops_per_step=5.6e13, flops_per_second=1.12e14, peak_flops=989.4e12, mfu=0.1132,
    estimate={"schema": "gpudoctor.estimate/1"},
)  # fmt: skip
REPORT = replace(healthy_report(), synthetic=JOB)


@pytest.mark.parametrize("width", [80, 120])
def test_memory_and_speed_stand_in_the_text(width):
    text = render_text(REPORT, width=width, colour=False)
    words = " ".join(text.split())
    assert "estimated measured" in words and "the peak of a step 6.4 GiB 6.5 GiB -1.5%" in words
    assert "500 ms a step, 4,096 tokens/s, 112 TFLOP/s of the model, MFU 11 % of 989 TFLOP/s" in words
    assert "program: /home/me/rec/llama-2-7b-qlora.py" in words
    table = [line for line in text.splitlines() if line.rstrip().endswith("%") and "GiB" in line]
    assert len(table) == 2 and len({line.rstrip()[-5:].find("%") for line in table}) == 1
    assert all(len(line) <= width for line in text.splitlines() if "program:" not in line)


def test_of_a_cpu_no_peak_is_invented():
    cpu = replace(JOB, kind="cpu", device="a CPU", peak_flops=None, mfu=None, run_peak=None, run_resident=GIB)
    assert speed_words(cpu).endswith("no MFU: a CPU's peak is not known") and "MFU 1" not in speed_words(cpu)
    assert len(memory_rows(cpu)) == 2
    text = render_text(replace(REPORT, synthetic=cpu), width=80, colour=False, verbose=True)
    assert "1 GiB resident in one process" in text and "the driver counts 7.1 GiB" in text
    unknown = replace(JOB, device="Some Card", peak_flops=None, mfu=None)
    assert "gpudoctor does not know the peak FLOP/s of Some Card" in speed_words(unknown)


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_takes_it(kind):
    text = render(REPORT, kind)
    if kind == "json":
        document = json.loads(text)
        validate(document, report_schema())
        assert document["synthetic"]["memory"][1]["ratio"] == pytest.approx(6.4 / 6.5, abs=1e-4)
        assert document["estimate"] == {"schema": "gpudoctor.estimate/1"}
    if kind in {"html", "markdown"}:
        assert "the peak of a step" in text and "6.5 GiB" in text
