"""The page: well-formed, self-contained, safe with any text, and every series of a run drawn."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from recordings import make_machine, make_process, make_recording, make_steps
from sample_reports import full_report, healthy_report

from gpudoctor.engine.run_summary import summarise
from gpudoctor.model.run import RunSeries
from gpudoctor.report import render
from gpudoctor.report.html.charts import DrawnSeries, band_chart, line_chart, ticks, time_ticks

VOID = {"meta", "br", "img", "hr", "link", "input"}
NAN = float("nan")


class Checker(HTMLParser):
    """Every tag is closed in order; collects attributes that could fetch something."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [
            f"{name}={value}" for name, value in attrs if name in ("src", "href", "srcset", "data")
        ]
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
    assert not {"script", "link", "iframe", "img", "object"} & set(checker.tags)
    assert "url(" not in page and "@import" not in page
    return checker


def rich_run():
    machine = make_machine(
        40, cpu=1.4, tree_cpu=1.1, memory=8e9, tree_rss=2e9, gpu0_util=0.4, gpu1_util=0.5, gpu0_memory=3e9,
        gpu0_power=180.0, gpu0_temperature=50.0, disk_read=1e8, net_rx=1e4,
    )  # fmt: skip
    ranks = [
        make_process(
            make_steps(
                500, seed=rank, peak=2e9, allocated=1e9, reserved=3e9, rss=1e9, grad_norm=1.0, samples=8.0
            ),
            rank=rank,
            world=2,
        )
        for rank in (0, 1)
    ]
    facts = {
        "gpus": [{"name": "A <b> card"}, {"name": "B"}],
        "cpus": 4,
        "memory": 1 << 34,
        "cgroup_memory": None,
    }
    return summarise(make_recording(*ranks, machine=machine, machine_facts=facts))


def test_the_page_of_a_run_draws_everything():
    page = render(replace(full_report(), run=rich_run()), "html")
    checker = checked(page)
    assert checker.tags.count("svg") == 13
    for title in ("Step time", "Phases, as shares", "Loss", "Gradient norm", "GPU memory, by torch", "Busy CPU cores",
                  "GPU utilisation", "GPU power", "GPU temperature", "Memory", "Disk", "Network"):  # fmt: skip
        assert f"<figcaption>{title}" in page
    assert ">rank 0</text>" in page and ">rank 1</text>" in page
    assert "A &lt;b&gt; card" in page
    assert len(page) < 400_000
    numbers = re.findall(r'd="([^"]*)"', page)
    assert numbers and not any("nan" in path or "inf" in path for path in numbers)


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
    assert "<script" not in page and "<img" not in page


def test_a_curve_has_gaps_where_nothing_is_known():
    series = RunSeries(name="x", unit="B", t=(0.0, 1.0, 2.0, 3.0, 4.0), values=(1e9, 2e9, NAN, 3e9, NAN))
    chart = line_chart("x", [DrawnSeries(label="x", series=series, style="c0")], (0.0, 4.0))
    path = re.search(r'class="line c0" d="([^"]*)"', chart)[1]
    assert path.count("M") == 2
    assert "GiB" in chart
    assert line_chart("x", [], (0.0, 1.0)) == "" and band_chart("x", [], (0.0, 1.0)) == ""
    nothing = replace(series, values=(NAN,) * 5)
    assert (
        "nan" not in line_chart("x", [DrawnSeries(label="x", series=nothing, style="c0")], (0.0, 4.0)).lower()
    )


@pytest.mark.parametrize(
    ("low", "high", "binary"),
    [(0, 1, False), (0, 0.041, False), (0, 80 * 1024**3, True), (0, 0, False), (-3.2, 7, False), (5, 5, False),
     (0, 1e-9, False), (0, 3e15, False), (0, 700, True)],
)  # fmt: skip
def test_ticks_are_few_round_and_enclose(low, high, binary):
    found = ticks(low, high, binary=binary)
    assert found[0] <= low and found[-1] >= high
    assert 2 <= len(found) <= 9
    assert found == sorted(set(found))


@pytest.mark.parametrize("high", [0.0, 0.3, 1, 7, 59, 61, 600, 3600, 86400, 72 * 3600, 1e7])
def test_time_ticks_are_few(high):
    found = time_ticks(high)
    assert 1 <= len(found) <= 130 and found[0] == 0 and found[-1] <= high
    assert len(found) <= 8 or high > 600_000
