import pytest
from looks import look, remedies
from recordings import make_machine, make_process, make_steps, make_worker, record

from gpudoctor.model import LeakKind, Severity, Unavailable
from gpudoctor_checks.memory.host_memory_leak import HostMemoryLeak

MIB = float(1 << 20)


def leaking(shape, n=300, records=()):
    return make_process(make_steps(n, rss=lambda i: 9e8 + shape(i)), records=records)


def test_sick_graphs_are_told_apart():
    grown = record("memory", 4.0, step=250, kind="census", device="cpu", growth=[["NllLossBackward0", 250, 0]])
    [finding] = look(HostMemoryLeak, leaking(lambda i: 0.25 * MIB * i, records=[grown]))
    assert finding.detail.kind is LeakKind.GRAPHS


def test_sick_tensors_without_graphs_need_no_detaching():
    what = "`features`, list of cpu tensors (6400, 256) without graphs"
    grown = record("memory", 4.0, step=250, kind="census", device="cpu",
                   growth=[[what, 250, 60 * MIB, "/job/train.py", 41]])  # fmt: skip
    [finding] = look(HostMemoryLeak, leaking(lambda i: 0.25 * MIB * i, records=[grown]))
    assert finding.detail.kind is LeakKind.TENSORS
    assert "deque" in remedies(finding) and "graph" not in remedies(finding)
    assert "and is full in 21 min;" in finding.message


def test_sick_a_container_without_tensors_needs_no_detaching():
    what = "`data.memo`, dict of ndarray"
    grown = record("memory", 4.0, step=250, kind="census", device="cpu",
                   growth=[[what, 4000, 60 * MIB, "/job/train.py", 12]])  # fmt: skip
    [finding] = look(HostMemoryLeak, leaking(lambda i: 0.25 * MIB * i, records=[grown]))
    assert finding.detail.kind is LeakKind.CONTAINER and finding.span.line == 12
    assert "limit what data.memo keeps" in remedies(finding) and "graph" not in remedies(finding)


def test_sick_objects_shared_with_workers():
    process = make_process(make_steps(600, forward=0.1, rss=9e8), wall=1763709302.0)
    machine = make_machine(62, tree_rss=lambda i: 4e9 + 50 * MIB * i, memory=lambda i: 6e9 + 50 * MIB * i)
    [finding] = look(
        HostMemoryLeak, process, workers=(make_worker(9),), machine=machine, started="2025-11-21T08:15:02+01:00"
    )
    assert finding.detail.kind is LeakKind.WORKERS and "numpy.array" in remedies(finding)
    machine = make_machine(62, tree_rss=lambda i: 4e9 + 4 * MIB * i)
    [little] = look(
        HostMemoryLeak, process, workers=(make_worker(9),), machine=machine, started="2025-11-21T08:15:02+01:00"
    )
    assert little.severity is Severity.NOTE and little.cost.breaks is None


def test_growth_that_nothing_explains_is_a_note_at_first():
    def climbing(i):
        return 1.4 * MIB * i

    [finding] = look(HostMemoryLeak, leaking(climbing, n=128))
    assert finding.severity is Severity.NOTE and finding.cost.breaks is None
    assert "record a longer run" in finding.message
    grown = record("memory", 1.0, step=90, kind="census", device="cpu",
                   growth=[["Tensor", 90, 120 * MIB, "/job/train.py", 41]])  # fmt: skip
    [finding] = look(HostMemoryLeak, leaking(climbing, n=128, records=[grown]))
    assert finding.severity is not Severity.NOTE


def test_healthy_memory():
    assert look(HostMemoryLeak, leaking(lambda i: 0)) == []
    assert look(HostMemoryLeak, leaking(lambda i: min(i, 80) * MIB)) == []
    assert look(HostMemoryLeak, leaking(lambda i: 0.02 * MIB * i)) == []


def test_no_readings():
    with pytest.raises(Unavailable, match="host memory"):
        look(HostMemoryLeak, make_process())


def test_what_a_profiler_keeps_is_the_profilers_effect():
    window = record("window", 1.0, what="torch.profiler", begin=0, end=None)
    [finding] = look(HostMemoryLeak, leaking(lambda i: 8 * MIB * i, records=[window]))
    assert finding.effect_of == "OBS001" and finding.cost.breaks is None


def keeping(kind, *rows):
    grown = [[*row, "/job/train.py", 41] for row in rows]
    return make_process(make_steps(200, rss=9e8), records=[record("memory", 5.0, step=80, kind=kind, growth=grown)])


def test_sick_an_evaluation_keeps_all_logits():
    [finding] = look(HostMemoryLeak, keeping("predictions", ("256 x 48 x 2000", 2000, 98 << 20)))
    assert finding.severity is Severity.WARNING and "2,000 for each label" in finding.message
    assert finding.span.line == 41 and "preprocess_logits_for_metrics" in remedies(finding)


def test_sick_files_that_grow():
    [finding] = look(HostMemoryLeak, keeping("saves", *[("last.pt", step, 1000 * (5 + step)) for step in range(8)]))
    assert "last.pt grows with every save, from 5.86 KiB to 11.7 KiB in 7 saves" in finding.message
    assert "what each save adds" in remedies(finding)


def test_healthy_what_is_kept():
    assert look(HostMemoryLeak, keeping("predictions", ("256 x 48", 1, 98 << 20))) == []  # classes
    assert look(HostMemoryLeak, keeping("predictions", ("4 x 48 x 2000", 2000, 1 << 20))) == []  # few
    assert (
        look(HostMemoryLeak, keeping("saves", *[("last.pt", step, 9000 if step else 3000) for step in range(8)])) == []
    )
    assert (
        look(HostMemoryLeak, keeping("saves", *[("last.pt", step, 9000 + 20 * step) for step in range(8)])) == []
    )  # a curve
