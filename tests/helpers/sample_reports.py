"""Reports with everything in them, for tests of whatever renders."""

from gpudoctor.model import (
    Applicability,
    Code,
    Confidence,
    Cost,
    Crashed,
    Effect,
    EffectOrigin,
    Effort,
    Finding,
    Found,
    KeywordEdit,
    LogLine,
    Measurement,
    Named,
    Passed,
    Ranked,
    Remedy,
    Report,
    SetAside,
    Setting,
    Severity,
    Silenced,
    Skipped,
    SourceSpan,
    Subject,
    Summary,
    TextEdit,
)

GIB = 1 << 30


def _workers(batch: str = "workers", count: int = 6) -> Remedy:
    return Remedy(
        id=f"DATA001-{batch}",
        title=f"num_workers={count}, persistent_workers=True",
        steps=(f"DataLoader(..., num_workers={count}, persistent_workers=True)",),
        applicability=Applicability.SAFE,
        effort=Effort.ONE_LINE,
        effect=Effect(quantity="throughput", low=1.9, high=2.3, unit="x", provenance=EffectOrigin.BOUND),
        sets=(("DataLoader.num_workers", str(count)),),
        edits=(KeywordEdit(path="train.py", line=88, column=10, set=(("num_workers", str(count)),)),),
        patch="--- a/train.py\n+++ b/train.py\n",
    )


LOADER = Finding(
    code=Code("DATA001"),
    name="loader-bound",
    severity=Severity.WARNING,
    confidence=Confidence.SUSPECTED,
    message="The loader decodes every image in the training process: num_workers=0, and 16 CPUs have nothing to do "
    "while the GPU waits.",
    evidence=(
        SourceSpan(path="train.py", line=88, column=10, text="loader = DataLoader(ds, batch_size=32, shuffle=True)"),
        Measurement(name="cpus", value=16, unit="CPUs", reproduce="nproc"),
    ),
    subject="train.py:88",
)
LOADER_RANKED = Ranked(
    rank=2,
    finding=LOADER,
    remedies=(
        _workers(),
        Remedy(
            id="DATA001-cache",
            title="cache the decoded crops (they are the same in each epoch)",
            steps=("Write the decoded crops once to a memory-mapped file.", "Read them from there."),
            applicability=Applicability.UNSAFE,
            effort=Effort.SMALL_EDIT,
            effect=Effect(quantity="throughput", low=1.0, high=2.4, unit="x", provenance=EffectOrigin.ESTIMATE),
            references=("https://pytorch.org/docs/stable/data.html",),
        ),
    ),
    set_aside=(SetAside(remedy=_workers("many", 32), reason="uses host memory, which ENV009 says is short"),),
    reason="largest expected gain, suspected",
)
REMAP = Ranked(
    rank=1,
    finding=Finding(
        code=Code("GPU003"),
        name="memory-errors",
        severity=Severity.ERROR,
        confidence=Confidence.CONFIRMED,
        message="GPU 5: row remapping failed and 3 uncorrectable errors were counted since boot.",
        evidence=(
            Measurement(name="row_remap_failure", value=True, unit="", reproduce="nvidia-smi -q -i 5 -d ROW_REMAPPER"),
            Measurement(name="ecc_uncorrected", value=3, unit="errors", reproduce="nvidia-smi -q -i 5 -d ECC"),
        ),
        cost=Cost(breaks="a process on GPU 5 dies or computes with wrong values"),
        subject="GPU 5",
    ),
    remedies=(
        Remedy(
            id="GPU003-rma",
            title="drain the node and return the card",
            steps=("scontrol update nodename=$(hostname -s) state=drain reason=GPU003",),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.ADMINISTRATOR,
        ),
    ),
    set_aside=(),
    reason="it breaks the run",
)
SHM = Ranked(
    rank=3,
    finding=Finding(
        code=Code("ENV006"),
        name="shm-too-small",
        severity=Severity.WARNING,
        confidence=Confidence.CONFIRMED,
        message="/dev/shm has 64 MiB; 8 workers with prefetch 2 need about 1.5 GiB.",
        evidence=(
            Measurement(name="shm_total", value=64 << 20, unit="B", reproduce="df -h /dev/shm"),
            Setting(key="loader.num_workers", value="8", origin="conf/train.yaml", path="conf/train.yaml", line=12),
            LogLine(origin="journalctl -k", text="python[4711]: bus error", time="2025-05-04T03:02:01"),
        ),
        cost=Cost(bytes=1_500 << 20, step_share=None),
    ),
    remedies=(
        Remedy(
            id="ENV006-size",
            title="give the container 2 GiB of shared memory",
            steps=("docker run --shm-size=2g ...",),
            applicability=Applicability.SAFE,
            effort=Effort.SETTING,
            effect=Effect(quantity="memory", low=GIB, high=2 * GIB, unit="B", provenance=EffectOrigin.ESTIMATE),
            edits=(
                TextEdit(
                    path="conf/train.yaml", line=12, column=16, end_line=12, end_column=17, new_text="2", expected="8"
                ),
            ),
        ),
    ),
    set_aside=(),
    reason="memory that it lacks",
)
SEED = Ranked(
    rank=4,
    finding=Finding(
        code=Code("LOOP008"),
        name="seedless",
        severity=Severity.NOTE,
        confidence=Confidence.SUSPECTED,
        message="No seed is set anywhere.",
        evidence=(SourceSpan(path="train.py", line=1, text="import torch"),),
    ),
    remedies=(),
    set_aside=(),
    reason="worth knowing",
)
MACHINE = Subject(
    kind="machine",
    title="this machine",
    targets=(),
    host="node-17",
    gpus=("NVIDIA H100 80GB HBM3",) * 8,
    details=(("driver", "570.86.15"), ("torch", "2.6.0+cu124"), ("CPUs", "16"), ("memory", "256 GiB")),
)
SCRIPT = Subject(
    kind="script",
    title="train.py",
    targets=("train.py", "conf/train.yaml"),
    host="node-17",
    gpus=("NVIDIA H100 80GB HBM3",) * 8,
    details=MACHINE.details,
)
CHECKS = tuple(
    Named(code=Code(code), name=name, title=title, help=f"**What it finds**\n\n{title}")
    for code, name, title in (
        ("DATA001", "loader-bound", "The GPU waits for the data loader."),
        ("ENV001", "driver-unreachable", "The driver does not answer although a GPU is on the bus."),
        ("ENV003", "driver-too-old", "The driver is older than the CUDA that torch was built for."),
        ("ENV006", "shm-too-small", "Shared memory is too small for the loader's workers."),
        ("GPU003", "memory-errors", "The GPU's memory has errors that it could not correct."),
        ("GPU006", "nvlink-down", "An NVLink is off while its siblings are on."),
        ("LOOP008", "seedless", "Nothing sets a seed."),
        ("OBS001", "profiler-in-loop", "A profiler runs in steady state."),
        ("PERF009", "gpu-unused", "Training runs on the CPU although a GPU is there."),
    )
)


def full_report() -> Report:
    """One of everything: error, warnings, note, crash, skip, deselection, silence, problem."""
    return Report(
        version="0.1.0",
        subject=SCRIPT,
        summary=Summary(
            verdict="train.py will not run well on this machine (1 error, 2 warnings).",
            error=1,
            warning=2,
            note=1,
            silenced=1,
            passed=2,
            skipped=1,
            crashed=1,
        ),
        findings=(REMAP, LOADER_RANKED, SHM, SEED),
        silenced=(
            Silenced(
                finding=Finding(
                    code=Code("OBS001"),
                    name="profiler-in-loop",
                    severity=Severity.WARNING,
                    confidence=Confidence.SUSPECTED,
                    message="torch.profiler runs in every step.",
                    evidence=(SourceSpan(path="train.py", line=41, text="prof.step()  # gpudoctor: ignore[OBS001]"),),
                ),
                where="comment in train.py:41",
                reason="measured on purpose",
            ),
        ),
        outcomes=(
            Found(code=Code("DATA001"), findings=(LOADER,)),
            Passed(code=Code("ENV001")),
            Crashed(code=Code("ENV003"), error="KeyError: '12.9' (driver_too_old.py:41)"),
            Found(code=Code("ENV006"), findings=(SHM.finding,)),
            Found(code=Code("GPU003"), findings=(REMAP.finding,)),
            Skipped(code=Code("GPU006"), reason="no NVLink on this card"),
            Found(code=Code("LOOP008"), findings=(SEED.finding,)),
            Passed(code=Code("OBS001"), silenced=1),
            Skipped(code=Code("PERF009"), reason="not selected", deselected=True),
        ),
        checks=CHECKS,
        problems=("sub/broken.py: line 3 is no Python 3 (print statement)",),
    )


def healthy_report() -> Report:
    """A machine on which nothing was found."""
    return Report(
        version="0.1.0",
        subject=MACHINE,
        summary=Summary(
            verdict="This machine shows no known fault in what can be read (environment, GPU state). GPU speed and link speed were not judged.",
            error=0,
            warning=0,
            note=0,
            silenced=0,
            passed=6,
            skipped=3,
            crashed=0,
        ),
        findings=(),
        silenced=(),
        outcomes=(
            Skipped(code=Code("DATA001"), reason="no script was given"),
            *(Passed(code=Code(code)) for code in ("ENV001", "ENV003", "ENV006", "GPU003")),
            Skipped(code=Code("GPU006"), reason="no NVLink on this card"),
            Passed(code=Code("LOOP008")),
            Passed(code=Code("OBS001")),
            Skipped(code=Code("PERF009"), reason="no script was given"),
        ),
        checks=CHECKS,
    )
