"""The page: well-formed, self-contained, safe with any text, and every series of a run drawn."""

import base64
import json
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from recordings import make_machine, make_process, make_recording, make_steps
from sample_reports import full_report, healthy_report

from gpudoctor.engine.run_summary import summarise
from gpudoctor.model.run import CardLine, RunSeries
from gpudoctor.report import render
from gpudoctor.report.excerpts import with_excerpts
from gpudoctor.report.html.axes import RunAxis
from gpudoctor.report.html.charts import DrawnSeries, line_chart, stack_chart
from gpudoctor.report.html.page import SCRIPT
from gpudoctor.ui.console.text_report import render_text

VOID = {"meta", "br", "img", "hr", "link", "input"}
NAN = float("nan")


class Checker(HTMLParser):
    """Every tag is closed in order; collects what could fetch something. Links (`a`) wait for a click."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.fetched: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [
            f"{name}={value}"
            for name, value in attrs
            if name in ("src", "srcset", "data") or (name == "href" and tag != "a")
        ]
        self.links += [str(value) for name, value in attrs if name == "href"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag


def checked(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert not checker.open
    assert not checker.fetched
    assert not {"link", "iframe", "img", "object"} & set(checker.tags)
    assert re.findall(r"<script.*?</script>", page, re.S) == [f"<script>{SCRIPT}</script>"]
    assert "url(" not in page and "@import" not in page
    return checker


def rich_run():
    machine = make_machine(
        40, cpu=1.4, tree_cpu=1.1, memory=8e9, tree_rss=2e9, gpu0_util=0.4, gpu1_util=0.5, gpu0_memory=3e9,
        gpu0_power=180.0, disk_read=1e8,
    )  # fmt: skip
    ranks = [
        make_process(
            make_steps(500, seed=rank, peak=2e9, allocated=1e9, reserved=3e9, rss=1e9, grad_norm=1.0, samples=8.0),
            rank=rank,
            world=2,
        )
        for rank in (0, 1)
    ]
    facts = {"gpus": [{"name": "A <b> card"}, {"name": "B"}], "cpus": 4, "memory": 1 << 34, "cgroup_memory": None}
    return summarise(make_recording(*ranks, machine=machine, machine_facts=facts))


def test_the_page_of_a_run_draws_everything():
    page = render(replace(full_report(), run=rich_run()), "html")
    checker = checked(page)
    for title in ("Every step, by phase", "Step times", "Loss", "Step time by rank"):
        assert f"<figcaption>{title}</figcaption>" in page
    for constant in ("Gradient norm", "GPU memory, by torch", "GPU power", "Disk", "Busy CPU cores"):
        assert f"<figcaption>{constant}</figcaption>" not in page
    assert ">rank 0</text>" in page and ">rank 1</text>" in page
    assert "A &lt;b&gt; card" in page
    assert checker.tags.count("figure") == checker.tags.count("svg")
    assert len(page) < 500_000
    numbers = re.findall(r'd="([^"]*)"', page)
    assert numbers and not any("nan" in path or "inf" in path for path in numbers)


def test_the_page_shows_the_card_and_the_first_batch():
    lines = (CardLine(name="labels", text="12 % of the tokens are trained; key=sk-" + "a" * 40, facts={"share": 0.12}),)
    shown = {"pictures": (bytes(range(75)),), "width": 5, "text": ((("<b>a", False), ("answer", True)),)}
    report = replace(full_report(), run=replace(rich_run(), training=lines, shown=shown))
    page = render(report, "html")
    assert "What is trained" in page and "12 % of the tokens" in page and "aaaa" not in page
    assert "&lt;b&gt;a <mark>answer</mark>" in page and "; img-src data:" in page
    picture = base64.b64decode(re.search(r"data:image/png;base64,([^\"]+)", page)[1])
    assert picture.startswith(b"\x89PNG") and zlib.decompress(picture[41:-16])[:16] == b"\0" + bytes(range(15))
    assert "img-src" not in render(replace(report, run=rich_run()), "html")
    text = render_text(report, width=60, colour=False) + render(report, "markdown")
    assert text.count("What is trained") == 2 and "answer" not in text
    assert "  labels  12 % of the tokens are trained; key=" in text
    assert json.loads(render(report, "json"))["run"]["training"]["labels"]["share"] == 0.12


@pytest.mark.parametrize("report", [full_report(), healthy_report()])
def test_the_page_of_an_examination_has_findings_and_outcomes(report):
    page = render(report, "html")
    checked(page)
    for item in report.findings:
        assert item.finding.name in page
    for outcome in report.outcomes:
        assert str(outcome.code) in page


def test_hostile_text_stays_text():
    evil = "<script>alert(1)</script>\"'><img src=x onerror=y>"
    full = full_report()
    report = replace(
        full,
        summary=replace(full.summary, verdict=evil),
        run=replace(rich_run(), command=("python", evil), recording=evil),
        problems=(evil,),
    )
    page = render(report, "html")
    checked(page)
    assert page.count("<script") == 1 and "<img" not in page


STEPS = RunAxis(high=100.0, clock=(0.0, 100.0), numbers=(0.0, 100.0))


def drawn(t, values, unit="B"):
    series = RunSeries(name="x", unit=unit, t=tuple(map(float, t)), values=tuple(values))
    return [DrawnSeries(label="x", series=series, style="c0")]


def test_a_curve_is_drawn_where_it_is_known():
    chart = line_chart("x", drawn([0, 1, 2, 3, 4], [1e9, NAN, 2e9, NAN, 3e9]), STEPS)
    assert re.search(r'class="line c0" d="([^"]*)"', chart)[1].count(",") == 3
    assert "GiB" in chart
    assert line_chart("x", [], STEPS) == "" and stack_chart("x", [], STEPS) == ""
    assert line_chart("x", drawn(range(5), [NAN] * 5), STEPS) == ""


def test_bands_have_no_seams_and_long_steps_are_named():
    run = summarise(make_recording(make_process(make_steps(100, data_wait=lambda i: 2.0 if i == 50 else 0.001))))
    page = render(replace(healthy_report(), run=run), "html")
    chart = page[page.index("<figcaption>Every step, by phase") :].split("</figure>")[0]
    assert re.search(r"up to [12]\.\d+ s", chart)
    bottoms = {
        path.partition(",")[2].partition("V")[0] for path in re.findall(r'class="band [^"]*" d="M([^"]*)"', chart)
    }
    assert len(bottoms) == 1  # each is painted from the ground up
    assert "stroke: none" in page


def test_lines_of_the_source_are_shown_where_the_file_is_as_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    full = full_report()
    span = full.findings[1].finding.evidence[0]
    text = [f"line_{number} = {number}" for number in range(1, span.line)] + [span.text, "after = 1"]
    (tmp_path / span.path).write_text("\n".join(text))
    report = with_excerpts(full)
    page = render(report, "html")
    links = checked(page).links
    assert f"line_{span.line - 1} = {span.line - 1}" in page and "after = 1" in page
    assert any(link.startswith("vscode://file/") and link.endswith(f":{span.line}") for link in links)
    (tmp_path / span.path).write_text("\n".join(["another = 1", *text]))
    assert with_excerpts(full).excerpts == ()
