"""The live view by Textual's pilot: every key, sizes, failures, colours."""

from dataclasses import replace

import pytest
from screens import Noted, eight_ranks, found, on_screen, screen_text, sick_tick
from windows import make_host_window, make_rank, make_tick, make_window, series

from gpudoctor.model.signs.process import Gap, LiveSteps
from gpudoctor.report.palette import PHASES, SEVERITIES
from gpudoctor.ui.watch.app import heights


@pytest.mark.parametrize(
    ("tick", "size"), [(make_tick(), (120, 40)), (sick_tick(), (80, 24)), (eight_ranks(), (80, 24))]
)
def test_every_size_shows_verdict_phases_and_keys(tick, size):
    text, app = on_screen([tick], size=size)
    lines = text.split("\n")
    assert len(lines) == size[1]
    assert lines[0].startswith("gpudoctor · train.py")
    assert tick.report.summary.verdict.split()[0] in lines[1]
    assert "where the loop is" in text and "findings" in text and "q quit" in lines[-1]
    phase = next(iter(tick.window.phases)).replace("_", " ")
    assert phase in text
    assert app.return_code in (0, None)


@pytest.mark.parametrize(
    ("granted", "machine", "shown"),
    [
        (1.0, 64.0, "2.0 of 64 cores  job may use 1 "),
        (64.0, 64.0, "2.0 of 64 cores  io wait"),
        (1.0, float("nan"), "2.0 cores  io wait"),
    ],
)
def test_busy_cores_of_the_machine_are_not_set_against_the_jobs_share(granted, machine, shown):
    host = make_host_window(cpus=granted, machine_cpus=machine, cpu=series([2.0] * 60))
    text, _ = on_screen([make_tick(make_window(host=host))], size=(120, 60))
    assert shown in text


def test_too_small_a_terminal_gets_a_sentence():
    text, _ = on_screen([make_tick()], size=(50, 12))
    assert "needs 60 x 18" in text and "where the loop is" not in text


def test_pause_stops_the_looks_and_goes_on():
    async def act(app, pilot):
        await pilot.press("p")
        await pilot.pause(0.2)
        source = app._source
        taken = source.taken
        assert "PAUSED" in screen_text(app)
        await pilot.pause(0.3)
        assert source.taken <= taken + 1
        await pilot.press("space")
        await pilot.pause(0.3)
        assert source.taken > taken + 1
        assert source.paused == [True, False]

    text, _ = on_screen([make_tick()], act, goes_on=True)
    assert "PAUSED" not in text


def test_rank_goes_through_the_ranks_and_back_to_all():
    async def act(app, pilot):
        assert "8 ranks" in screen_text(app)
        for expected in ("rank 0", "rank 1"):
            await pilot.press("r")
            assert f"{expected} and its workers" in screen_text(app)
        for _ in range(7):
            await pilot.press("r")
        assert app.view.rank is None

    on_screen([eight_ranks()], act, size=(120, 40))


def test_enter_opens_the_manual_page_of_the_chosen_finding_and_escape_leaves_it():
    async def act(app, pilot):
        await pilot.press("down", "enter")
        await pilot.pause()
        assert "GPU001 manual page" in screen_text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert "GPU001 manual page" not in screen_text(app)

    on_screen([sick_tick()], act)


def test_the_choice_stays_with_its_finding_when_the_order_changes():
    first, second = found(), found("GPU001", "low-utilization", rank=2)
    turned = sick_tick(replace(second, rank=1), replace(first, rank=2))

    async def act(app, pilot):
        await pilot.press("down")
        assert app._chosen.finding.code == "GPU001"
        app._source.ticks[:] = [turned]
        await pilot.pause(0.3)
        assert app._chosen.finding.code == "GPU001"

    on_screen([sick_tick(first, second)], act, goes_on=True)


def test_keys_has_a_page_of_its_own():
    async def act(app, pilot):
        await pilot.press("question_mark")
        await pilot.pause()
        shown = screen_text(app)
        assert "pause or resume" in shown

    on_screen([make_tick()], act, size=(100, 40))


def test_every_key_says_what_it_did():
    async def act(app, pilot):
        said = []
        app.notify = lambda message, **_: said.append(message)
        for key, words in (("p", "takes no samples"), ("p", "sampling again"), ("r", "rank 0 alone")):
            await pilot.press(key)
            await pilot.pause()
            assert words in said[-1], key

    on_screen([eight_ranks()], act, size=(120, 40))


@pytest.mark.parametrize("height", range(18, 70, 4))
def test_the_parts_fill_the_screen_and_never_more(height):
    wanted = {"phases": 6, "gpus": 7, "ranks": 9, "host": 6, "places": 12, "header": 1, "verdict": 1}
    found = heights(wanted, 6, height)
    assert sum(found.values()) == height - 4
    assert found["phases"] >= 5 and found["findings"] >= 4
    assert heights({**wanted, "places": 0}, 1, height)["places"] == 0
    wide = heights(wanted, 6, height, wide=True)
    assert wide["findings"] + wide["middle"] == height - 4 and wide["phases"] + wide["places"] == wide["middle"]


@pytest.mark.parametrize(("width", "beside"), [(80, False), (120, False), (160, True)])
def test_findings_stand_under_the_verdict_and_the_gpus_beside_the_loop_where_there_is_room(width, beside):
    lines = on_screen([eight_ranks()], size=(width, 40))[0].split("\n")
    at = {
        part: next(place for place, line in enumerate(lines) if part in line)
        for part in ("findings (", "where the loop", "8 gpus")
    }
    assert at["findings ("] == 3 and at["where the loop"] > 3 and (at["8 gpus"] == at["where the loop"]) is beside
    assert lines[at["where the loop"] + 5].count("now") == 1  # the axis, under four rows


def test_what_fails_outside_the_screen_is_a_sentence_on_it():
    async def act(app, pilot):
        await pilot.press("s")
        await pilot.pause()
        assert [item.message for item in app._notifications] == ["no space left on device"]

    on_screen([sick_tick()], act, noted=Noted(fails=True))


def test_a_tick_that_fails_leaves_the_last_one_on_the_screen():
    async def act(app, pilot):
        await pilot.pause(0.2)
        shown = screen_text(app)
        assert "This tick failed: RuntimeError: the driver" in shown and "where the loop is" in shown
        app._source.ticks[:] = [make_tick()]
        await pilot.pause(0.3)
        assert "This tick failed" not in screen_text(app)

    on_screen([make_tick(), RuntimeError("the driver said something odd")], act)


def test_what_cannot_be_seen_says_why_and_what_would_mend_it():
    blind = make_rank(looks={}, blind="no permission to read its memory", trail=(), stack=())
    gap = Gap(panel="stacks", reason="process 4711 belongs to ana", fix="sudo gpudoctor watch 4711")
    text, _ = on_screen([make_tick(make_window([blind], gaps=(gap,)))], size=(120, 40))
    flat = " ".join(text.split())
    assert "no stacks: process 4711 belongs to ana" in flat and "-> sudo gpudoctor watch 4711" in flat


def test_a_job_under_run_shows_its_exact_steps():
    steps = LiveSteps(step=1240, seconds=0.0412, phases={"data_wait": 0.58, "backward": 0.42}, loss=1.38)
    text, _ = on_screen([make_tick(make_window([make_rank(steps=steps)]))])
    for words in ("step 1,240", "41.2 ms a step", "24.3 steps/s", "loss 1.38", "58%"):
        assert words in text


def test_control_characters_of_a_command_or_a_line_do_not_reach_the_terminal():
    rank = make_rank(looks={"other@x.py:3": 40}, texts={"other@x.py:3": "x = '\x1b[31mred\x07'"})
    text, _ = on_screen([make_tick(make_window([rank]))])
    assert "\x1b" not in text and "\x07" not in text and "x.py:3" in text


@pytest.mark.parametrize(("variable", "value", "theme"), [("NO_COLOR", "1", ""), ("TERM", "xterm", "dark")])
def test_phases_have_the_colours_of_the_palette_or_names_alone(monkeypatch, variable, value, theme):
    monkeypatch.setenv(variable, value)
    shown, noted = set(), Noted()

    async def act(app, pilot):
        strips = app.screen._compositor.render_strips()
        colours = [part.style.color for strip in strips for part in strip if part.style and part.style.color]
        shown.update(str(colour.triplet.hex) for colour in colours if colour.triplet)
        await pilot.press("s")
        assert app.no_color is not bool(theme)

    text, _ = on_screen([sick_tick()], act, size=(80, 40), noted=noted)
    assert len(noted.saved) == 1
    assert "■ data wait" in text and ("▀" in text) is bool(theme)
    wanted = [*(PHASES[phase] for phase in ("data_wait", "forward", "backward")), SEVERITIES["warning"]]
    assert not theme or {getattr(colour, theme).lower() for colour in wanted} <= shown
