import pytest
from looks import look_of, remedies_of
from recordings import make_process, make_steps, record

from gpudoctor.model import Severity
from gpudoctor.model.signs.recording import RunEnd
from gpudoctor_checks.memory.out_of_memory import OutOfMemory
from gpudoctor_rules.advice import advice

look = look_of(OutOfMemory)
remedies = remedies_of(advice("memory"))
GIB = 1 << 30
DEAD = RunEnd(exit_code=1, seconds=20.0)


def oom(steps=200, step=200, phase="forward", allocated=70, reserved=72, **columns):
    """A run that died of device memory."""
    frames = [["/job/train.py", 41, "train", "out = model(x)"], ["/env/site-packages/torch/nn.py", 9, "f", ""]]
    held = {"allocated": allocated * GIB, "reserved": reserved * GIB, "total": 80 * GIB, "requested": 12 * GIB}
    died = record("exception", 5.0, exception="OutOfMemoryError", message="CUDA out of memory. Tried to allocate",
                  frames=frames, user=0, step=step, phase=phase, oom=held)  # fmt: skip
    return make_process(make_steps(steps, **columns), records=[died], clean=False)


@pytest.mark.parametrize(
    ("arguments", "cause", "word"),
    [
        ({"steps": 1, "step": 0}, "batch", "accumulation"),
        ({}, "batch", "checkpointing"),
        ({"phase": "evaluation"}, "evaluation", "inference_mode"),
        ({"allocated": 30, "reserved": 70}, "fragments", "expandable_segments"),
        ({"allocated": 70, "steps": 300}, "leak", "detach"),
    ],
)
def test_sick_by_its_moment(arguments, cause, word):
    columns = {}
    if cause == "leak":
        columns = {"noise": 0.0}
        process = make_process(
            make_steps(300, allocated=lambda i: 1e9 + 1e8 * i), records=oom().of("exception"), clean=False
        )
    else:
        process = oom(**arguments, **columns)
    [finding] = look(process, end=DEAD)
    assert finding.severity is Severity.ERROR and finding.detail.cause == cause
    assert (finding.span.path, finding.span.line) == ("train.py", 41)
    assert word in remedies(finding)


def test_healthy_ends():
    assert look(make_process()) == []
    assert look(oom(), end=RunEnd(exit_code=0)) == []  # it was caught
