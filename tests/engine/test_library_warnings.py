"""What libraries say themselves stands in the report of a run and of a log, with a cure; it is never a death."""

import pytest
from recordings import make_process, make_recording, record

from gpudoctor.cli import main
from gpudoctor.engine.examination import Request, examine
from gpudoctor.engine.registry import load_registry
from gpudoctor.engine.selection import make_selection
from gpudoctor.model import Confidence, PatientKind
from gpudoctor.model.log_message import LibraryWarning
from gpudoctor.testing import make_patient

REGISTRY = load_registry()
ROWS = {(code, row.kind): row for code, row in REGISTRY.log_messages() if isinstance(row, LibraryWarning)}
SAID = {
    ("PERF004", "gave-up"): "W1129 08:11:02.512000 4711 torch/_dynamo/convert_frame.py:1358] [3/8] torch._dynamo hit "
    "config.recompile_limit (8)\n   function: 'forward' (net.py:31)",
    ("NUM005", "checkpointed-inputs"): "/opt/env/lib/python3.11/site-packages/torch/utils/checkpoint.py:85: "
    "UserWarning: None of the inputs have requires_grad=True. Gradients will be None\n  warnings.warn(",
    (
        "TRAIN005",
        "wrapped-twice",
    ): "UserWarning: You are trying to modify a model with PEFT for a second time. If you want",
    ("NUM008", "nothing-trainable"): "trainable params: 0 || all params: 1,100,048,384 || trainable%: 0.0000",
    (
        "CFG007",
        "adapter-keys",
    ): "UserWarning: Found missing adapter keys while loading the checkpoint: ['base_model.a'].",
    ("CFG007", "adapter-settings"): "UserWarning: Unexpected keyword arguments ['corda_config'] for class LoraConfig, "
    "these are ignored. This probably means",
    (
        "LOOP012",
        "target-size",
    ): "UserWarning: Using a target size (torch.Size([64])) that is different to the input size "
    "(torch.Size([64, 1])). This will likely lead to incorrect results due to broadcasting.",
    ("DATA003", "suggested-workers"): "UserWarning: This DataLoader will create 16 worker processes in total. Our "
    "suggested max number of worker in current system is 2, which is smaller than what this DataLoader is",
    (
        "DATA008",
        "iterable-length",
    ): "UserWarning: Length of IterableDataset <corpus.Lines object> was reported to be 100"
    "(when accessing len(dataloader)), but 101 samples have been fetched. For multiprocessing data-loading, this",
    (
        "DIST007",
        "all-used",
    ): "[rank0]:[W320 02:29:25.960059248 reducer.cpp:1500] Warning: find_unused_parameters=True was "
    "specified in DDP constructor, but did not find any unused parameters in the forward pass.",
    (
        "PERF002",
        "not-enabled",
    ): "UserWarning: TensorFloat32 tensor cores for float32 matrix multiplication available but "
    "not enabled. Consider setting `torch.set_float32_matmul_precision('high')` for better performance.",
    (
        "NUM012",
        "no-response",
    ): "UserWarning: Could not find response key `### Answer:` in the following instance: Hello "
    "This instance will be ignored in loss calculation. Note, if this happens often,",
}
STEPS = "".join(f"step {number} loss 2.{90 - number}\n" for number in range(40))


def test_every_row_has_a_sample():
    assert set(SAID) == set(ROWS)


def examined(code, *records, **changes):
    recording = make_recording(make_process(records=records), **changes)
    patient = make_patient(recording=recording, kind=PatientKind.RECORDING)
    return examine(patient, Request(registry=REGISTRY, selection=make_selection(REGISTRY, [(code, "--select")], [])))


def said(text, **fields):
    return record("warning", **{"library": "torch", "text": text, "count": 1, "path": "/w/fit.py", "line": 7, **fields})


@pytest.mark.parametrize(("code", "kind"), sorted(SAID))
def test_a_run_in_which_a_library_said_it(code, kind):
    row, text = ROWS[code, kind], SAID[code, kind]
    report = examined(code, said(text), said(text, count=31))
    [item] = [item for item in report.findings if item.finding.subject == kind]
    finding = item.finding
    assert (finding.severity, finding.message) == (row.severity, row.text)
    assert finding.confidence is Confidence.PROBABLE and finding.span.line == 7
    assert [remedy.title for remedy in item.remedies] == [row.advice]
    [told] = report.run.warnings
    assert (told.library, told.count) == ("torch", 31)


@pytest.mark.parametrize(("code", "kind"), sorted(SAID))
def test_a_log_in_which_a_library_said_it(code, kind, tmp_path, capsys):
    log = tmp_path / "fit.out"
    log.write_text(SAID[code, kind] + "\n" + STEPS + "Training completed\n")
    assert main(["autopsy", str(log), "--fail-on", "never"]) == 0
    shown = capsys.readouterr().out
    assert ROWS[code, kind].text.split()[0] in shown and code in shown and "no failure" in shown.replace("\n", " ")


def test_the_checks_own_finding_speaks_for_both():
    own = record(
        "numeric", 3.0, kind="broadcast", step=20, losses=24, shapes=[[[24, 1], [24, 24], 20]], path="/w/fit.py", line=7
    )
    report = examined("LOOP012", own, said(SAID["LOOP012", "target-size"]))
    assert [item.finding.subject for item in report.findings] != ["target-size"] and len(report.findings) == 1
