"""Hypothesis strategies for reports: any text, any number, any mixture of outcomes."""

from hypothesis import strategies as st

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
    PatientKind,
    Provenance,
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
from gpudoctor.model.run import LineShare, RunSummary

NASTY = (
    "",
    "|",
    "::error file=x::y",
    "`` ` ```",
    "]]>",
    "</details>",
    "\x1b[31mred\x1b[0m",
    "\udce9t\udce9",
    "100%\r\n done",
    "[bold]markup[/bold]",
    "C:\\Users\\alice\\my project\\train.py",
    "\\\\server\\share\\x.py",
    "/home/alice/train.py",
    "日本語のパス/学習.py",
    "\u202egnp.exe",
    "\ufffe\uffff\x00",
    "x" * 300,
    "a\tb\nc\n\nd",
    "@torch.no_grad #12 <script>",
)
texts = st.one_of(
    st.sampled_from(NASTY),
    st.text(alphabet=st.characters(), max_size=60),  # lone surrogates included
)
lines = st.integers(1, 10**6)
codes = st.sampled_from(["DATA001", "ENV003", "GPU003", "LOOP008", "ACME042"]).map(Code)
numbers = st.one_of(st.floats(), st.integers(-(10**18), 10**18), st.booleans(), texts)
maybe_text = st.none() | texts
evidence = st.one_of(
    st.builds(
        Measurement,
        name=st.sampled_from(["shm_total", "cpus"]),
        value=numbers,
        unit=st.sampled_from(["B", "s", "1", "W", "Cel", "", "{threads}"]),
        provenance=st.sampled_from(Provenance),
        reproduce=maybe_text,
    ),
    st.builds(SourceSpan, path=texts, line=lines, column=lines, end_line=st.none() | lines, text=texts),
    st.builds(
        Setting, key=texts, value=texts, origin=texts, path=maybe_text, line=st.none() | lines, reproduce=maybe_text
    ),
    st.builds(LogLine, origin=texts, text=texts, line=st.none() | lines, time=maybe_text),
)
effects = st.builds(
    Effect,
    quantity=st.sampled_from(["throughput", "memory", "step_time"]),
    low=st.floats(),
    high=st.floats(),
    unit=st.sampled_from(["x", "B", "s", "ranks"]),
    provenance=st.sampled_from(EffectOrigin),
)
edits = st.one_of(
    st.builds(
        KeywordEdit,
        path=texts,
        line=lines,
        column=lines,
        set=st.lists(st.tuples(texts, texts), max_size=2).map(tuple),
        remove=st.lists(texts, max_size=2).map(tuple),
    ),
    st.builds(
        TextEdit, path=texts, line=lines, column=lines, end_line=lines, end_column=lines, new_text=texts, expected=texts
    ),
)
remedies = st.builds(
    Remedy,
    id=st.just("DATA001-workers"),
    title=texts,
    steps=st.lists(texts, min_size=1, max_size=3).map(tuple),
    applicability=st.sampled_from(Applicability),
    effort=st.sampled_from(Effort),
    effect=st.none() | effects,
    sets=st.lists(st.tuples(texts, texts), max_size=2).map(tuple),
    edits=st.lists(edits, max_size=2).map(tuple),
    references=st.lists(texts, max_size=2).map(tuple),
)
findings = st.builds(
    Finding,
    code=codes,
    name=st.sampled_from(["loader-bound", "driver-too-old"]),
    severity=st.sampled_from(Severity),
    confidence=st.sampled_from(Confidence),
    message=texts,
    evidence=st.lists(evidence, min_size=1, max_size=4).map(tuple),
    cost=st.builds(
        Cost, step_share=st.none() | st.floats(), bytes=st.none() | st.integers(-(10**15), 10**15), breaks=maybe_text
    ),
    subject=texts,
)
ranked = st.builds(
    Ranked,
    rank=st.integers(1, 200),
    finding=findings,
    remedies=st.lists(remedies, max_size=4).map(tuple),
    set_aside=st.lists(st.builds(SetAside, remedy=remedies, reason=texts), max_size=1).map(tuple),
    reason=texts,
)
outcomes = st.one_of(
    st.builds(Passed, code=codes, silenced=st.integers(0, 3)),
    st.builds(Found, code=codes, findings=st.lists(findings, min_size=1, max_size=2).map(tuple)),
    st.builds(Skipped, code=codes, reason=texts, deselected=st.booleans()),
    st.builds(Crashed, code=codes, error=texts),
)
counts = st.integers(0, 100)
reports = st.builds(
    Report,
    version=st.just("0.1.0"),
    subject=st.builds(
        Subject,
        kind=st.sampled_from([kind.value for kind in PatientKind]),
        title=texts,
        targets=st.lists(texts, max_size=3).map(tuple),
        host=texts,
        gpus=st.lists(texts, max_size=3).map(tuple),
        details=st.lists(st.tuples(texts, texts), max_size=3).map(tuple),
    ),
    summary=st.builds(
        Summary,
        verdict=texts,
        error=counts,
        warning=counts,
        note=counts,
        silenced=counts,
        passed=counts,
        skipped=counts,
        crashed=counts,
    ),
    findings=st.lists(ranked, max_size=3).map(tuple),
    silenced=st.lists(st.builds(Silenced, finding=findings, where=texts, reason=maybe_text), max_size=2).map(tuple),
    outcomes=st.lists(outcomes, max_size=4).map(tuple),
    checks=st.lists(
        st.builds(Named, code=codes, name=st.just("loader-bound"), title=texts, help=texts),
        max_size=3,
        unique_by=lambda item: item.code,
    ).map(tuple),
    problems=st.lists(texts, max_size=2).map(tuple),
    run=st.none()
    | st.builds(
        RunSummary,
        recording=texts,
        command=st.lists(texts, max_size=2).map(tuple),
        steps=st.integers(0, 10**9),
        phases=st.dictionaries(st.sampled_from(["data_wait", "forward", "other"]), st.floats(0, 1)),
        lines=st.builds(LineShare, path=texts, line=st.integers(1, 9), function=texts, share=st.floats()).map(
            lambda line: (line,)
        ),
    ),
)
