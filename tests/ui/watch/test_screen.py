"""The live view by Textual's pilot: every key, sizes, failures, colours."""

import os
import re
from dataclasses import replace

import pytest
from screens import Noted, eight_ranks, found, on_screen, screen_text, sick_tick
from windows import GIB, make_gpu_window, make_host_window, make_rank, make_tick, make_window, make_worker, series

from gpudoctor.model import Applicability, Effort, Remedy
from gpudoctor.model.signs.process import Gap, GpuUser, LiveSteps
from gpudoctor.report.palette import PHASES, SEVERITIES
from gpudoctor.ui.watch.app import heights
from gpudoctor.ui.watch.marks import View


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (120, 40), (200, 60)])
@pytest.mark.parametrize("tick", [make_tick(), sick_tick(), eight_ranks()], ids=["well", "sick", "eight ranks"])
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


def test_the_screen_at_80_columns_is_as_it_was_looked_at():
    text, _ = on_screen([sick_tick()], size=(80, 24))
    assert "util   " in text and "30%" in text and "power  " in text
    assert "■ data wait" in text and "58%" in text and "-2 min" in text and "now" in text
    assert "data.py:31 __getitem__" in text
    assert "1 DATA001 loader-bound" in text and "2 GPU001 low-utilization" in text
    assert "cpu    █" in text and "memory ██" in text


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
    text, _ = on_screen([make_tick(make_window(host=host))], size=(200, 60))
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


def test_gpu_goes_through_the_cards_and_back_to_the_list():
    async def act(app, pilot):
        assert "31W" not in screen_text(app)
        await pilot.press("g")
        shown = screen_text(app)
        assert "gpu 0" in shown and "pcie" in shown and app.view.gpu == 0
        for _ in range(8):
            await pilot.press("g")
        assert app.view.gpu is None

    on_screen([eight_ranks()], act, size=(120, 40))


def test_order_changes_the_list_of_lines():
    looks = {"forward@z.py:1": 10, "backward@a.py:9": 90}

    async def act(app, pilot):
        def places():
            return [line for line in screen_text(app).split("\n") if ".py:" in line and "%" in line]

        assert "a.py:9" in places()[0]
        await pilot.press("o")
        await pilot.press("o")
        assert "by phase" in screen_text(app) and "a.py:9" in places()[0]
        await pilot.press("o")
        await pilot.press("o")
        assert "by file" in screen_text(app)

    on_screen([make_tick(make_window([make_rank(looks=looks)]))], act)


def test_enter_opens_the_manual_page_of_the_chosen_finding_and_escape_leaves_it():
    async def act(app, pilot):
        await pilot.press("down", "enter")
        await pilot.pause()
        assert "GPU001 manual page" in screen_text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert "GPU001 manual page" not in screen_text(app)

    on_screen([sick_tick()], act)


def test_a_click_opens_the_manual_page():
    async def act(app, pilot):
        await pilot.click("#findings", offset=(5, 1))
        await pilot.pause()
        assert "manual page" in screen_text(app)

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
        assert "pause or resume" in shown and "■ data wait" in shown and "end the selected process" not in shown

    on_screen([make_tick()], act, size=(100, 40))


def test_save_record_and_copy():
    noted = Noted()

    async def act(app, pilot):
        await pilot.press("s")
        await pilot.press("R")
        await pilot.pause()
        assert app.view.recording == "ticks.gz" and " REC" in screen_text(app)
        await pilot.press("R")
        await pilot.pause()
        await pilot.press("c")
        assert app.clipboard == "py-spy dump --pid 4711"

    on_screen([sick_tick()], act, noted=noted)
    assert len(noted.saved) == 1 and noted.recorded == [True, False]


def test_the_fix_is_what_is_copied():
    remedy = Remedy(
        id="DATA001-workers", title="More workers", steps=("In words.", "$ DataLoader(ds, num_workers=8)"),
        applicability=Applicability.SAFE, effort=Effort.ONE_LINE,
    )  # fmt: skip

    async def act(app, pilot):
        await pilot.press("c")
        await pilot.pause()
        assert app.clipboard == "DataLoader(ds, num_workers=8)"
        assert [item.title for item in app._notifications] == ["copied the fix"]

    on_screen([sick_tick(replace(found(), remedies=(remedy,)))], act)


def test_every_key_says_what_it_did():
    async def act(app, pilot):
        said = []
        app.notify = lambda message, **_: said.append(message)
        for key, words in (("p", "takes no samples"), ("p", "sampling again"), ("r", "rank 0 alone"), ("g", "one GPU"),
                           ("o", "lines by file"), ("t", "light"), ("t", "dark")):  # fmt: skip
            await pilot.press(key)
            await pilot.pause()
            assert words in said[-1], key

    on_screen([eight_ranks()], act, size=(120, 40))


def test_a_click_on_a_rank_or_a_gpu_selects_it_and_another_one_leaves_it():
    async def act(app, pilot):
        await pilot.click("#gpus", offset=(3, 3))  # the edge, the heads, GPU 0, GPU 1
        await pilot.pause()
        assert app.view.gpu == 1 and "gpu 1" in screen_text(app)
        await pilot.click("#gpus", offset=(3, 3))
        await pilot.pause()
        assert app.view.gpu is None
        await pilot.click("#ranks", offset=(3, 1))  # the odd one comes first
        await pilot.pause()
        assert app.view.rank == 5 and "rank 5 and its workers" in screen_text(app)

    on_screen([eight_ranks()], act, size=(120, 40))


def test_a_click_on_a_key_presses_it():
    async def act(app, pilot):
        line = screen_text(app).split("\n")[-1]
        await pilot.click("#keys", offset=(line.index("p pause") + 1, 0))
        await pilot.pause()
        assert app.view.paused

    on_screen([make_tick()], act)


def test_panels_without_content_take_no_room():
    shown = set()

    async def act(app, pilot):
        panels = app.query("#gpus, #ranks, #steps, #host")
        shown.update(panel.id for panel in panels if not panel.has_class("empty"))

    text, _ = on_screen([make_tick()], act, size=(120, 40))
    assert shown == {"host"} and re.search(r"now \w+ in main", text) and "no GPU seen: no NVIDIA driver" in text


def test_steps_and_loss_have_their_histories():
    steps = LiveSteps(step=1240, seconds=0.0412, phases={}, loss=1.38)
    rank = make_rank(steps=steps, step_seconds=series([0.04, 0.05, 0.0412]), losses=series([3.0, 2.0, 1.38]))
    text, _ = on_screen([make_tick(make_window([rank]))], size=(120, 40))
    assert "24.3 steps/s" in text and re.search(r"loss +█▄▁ 1\.38", text) and "· loss 1.38" in text


@pytest.mark.parametrize("light", [False, True])
def test_phases_have_the_colours_of_the_palette(light):
    theme = "light" if light else "dark"
    shown = []

    async def act(app, pilot):
        if light:
            await pilot.press("t")
            await pilot.pause()
        strips = app.screen._compositor.render_strips()
        shown.extend(str(part.style.color.triplet.hex) for strip in strips for part in strip
                     if part.style and part.style.color and part.style.color.triplet)  # fmt: skip

    on_screen([sick_tick()], act, size=(120, 40))
    for phase in ("data_wait", "forward", "backward"):
        assert getattr(PHASES[phase], theme).lower() in shown
    assert getattr(SEVERITIES["warning"], theme).lower() in shown


@pytest.mark.parametrize("height", range(18, 70, 4))
def test_the_parts_fill_the_screen_and_never_more(height):
    wanted = {"phases": 6, "gpus": 7, "steps": 4, "ranks": 9, "host": 6, "places": 12, "header": 1, "verdict": 1}
    found = heights(wanted, 6, height)
    assert sum(found.values()) == height - 4
    assert found["phases"] >= 5 and found["findings"] >= 4
    assert heights({**wanted, "places": 0}, 1, height)["places"] == 0


def test_what_fails_outside_the_screen_is_a_sentence_on_it():
    async def act(app, pilot):
        await pilot.press("s")
        await pilot.pause()
        assert [item.message for item in app._notifications] == ["no space left on device"]

    on_screen([sick_tick()], act, noted=Noted(fails=True))


def test_kill_does_nothing_unless_it_was_allowed():
    noted = Noted()

    async def act(app, pilot):
        await pilot.press("K")

    on_screen([make_tick()], act, noted=noted)
    assert noted.killed == []
    text, _ = on_screen([make_tick()], act, noted=noted, kill=True)
    assert noted.killed == [4711] and "K kill" in text


def test_quit_leaves_at_once():
    async def act(app, pilot):
        await pilot.press("q")
        await pilot.pause()

    _, app = on_screen([make_tick()], act)
    assert app.return_code == 0


def test_theme_turns_light_and_dark():
    async def act(app, pilot):
        assert app.theme == "textual-dark"
        await pilot.press("t")
        assert app.theme == "textual-light"
        await pilot.press("t")
        assert app.theme == "textual-dark"

    on_screen([make_tick()], act)


def test_a_tick_that_fails_leaves_the_last_one_on_the_screen():
    async def act(app, pilot):
        await pilot.pause(0.2)
        shown = screen_text(app)
        assert "This tick failed: RuntimeError: the driver" in shown and "where the loop is" in shown
        app._source.ticks[:] = [make_tick()]
        await pilot.pause(0.3)
        assert "This tick failed" not in screen_text(app)

    on_screen([make_tick(), RuntimeError("the driver said something odd")], act)


def test_the_end_of_the_job_is_shown_with_the_last_verdict():
    text, _ = on_screen([make_tick(make_window(ended="the process has ended (12:03:11)"))])
    assert "ENDED" in text and "The process has ended" in text


def test_a_replay_that_ends_stays_on_its_last_tick():
    shown = make_tick()

    class Tape:
        taken = 0

        def tick(self):
            Tape.taken += 1
            return shown if Tape.taken == 1 else None

        def pause(self, on):
            pass

    import asyncio

    from gpudoctor.ui.watch.app import WatchApp

    async def go():
        app = WatchApp(Tape(), Noted().actions(), interval=0.02, view=View(replay="x"))
        async with app.run_test(size=(100, 30)) as pilot:
            await pilot.pause(0.3)
            assert "REPLAY" in screen_text(app) and Tape.taken == 2

    asyncio.run(go())


def test_what_cannot_be_seen_says_why_and_what_would_mend_it():
    blind = make_rank(looks={}, blind="no permission to read its memory", trail=(), stack=())
    gap = Gap(panel="stacks", reason="process 4711 belongs to ana", fix="sudo gpudoctor watch 4711")
    text, _ = on_screen([make_tick(make_window([blind], gaps=(gap,)))], size=(120, 40))
    flat = " ".join(text.split())
    assert "no stacks: process 4711 belongs to ana" in flat and "-> sudo gpudoctor watch 4711" in flat


def test_workers_in_trouble_come_first_and_strangers_on_the_card_are_named():
    workers = (make_worker(1), make_worker(2, state="D", wait_channel="nfs_wait"), make_worker(3, cpu=0.9, state="R"))
    gpu = make_gpu_window(users=(GpuUser(pid=4711, memory=GIB, name="python", ours=True),
                                 GpuUser(pid=99, memory=9 * GIB, name="blender", ours=False)))  # fmt: skip
    window = make_window([make_rank(workers=workers, gpus=(0,))], [gpu])
    text, _ = on_screen([make_tick(window)], size=(120, 40))
    assert "disk wait in nfs_wait" in text and "other on 0: blender 99 9.0G" in text
    assert text.index("disk wait in") < text.index("running", text.index("disk wait in"))


def test_a_job_under_run_shows_its_exact_steps():
    steps = LiveSteps(step=1240, seconds=0.0412, phases={"data_wait": 0.58, "backward": 0.42})
    text, _ = on_screen([make_tick(make_window([make_rank(steps=steps)]))])
    assert "step 1,240" in text and "41.2 ms a step" in text and "58%" in text


def test_control_characters_of_a_command_or_a_line_do_not_reach_the_terminal():
    rank = make_rank(looks={"other@x.py:3": 40}, texts={"other@x.py:3": "x = '\x1b[31mred\x07'"})
    text, _ = on_screen([make_tick(make_window([rank]))])
    assert "\x1b" not in text and "\x07" not in text and "x.py:3" in text


def test_without_colour_phases_have_letters():
    os.environ["NO_COLOR"] = "1"
    try:
        text, _ = on_screen([sick_tick()], size=(120, 40))
    finally:
        os.environ.pop("NO_COLOR")
    assert "d data wait" in text and "ddd" in text and "■" not in text


def test_no_colour_is_honoured():
    before = os.environ.get("NO_COLOR")
    os.environ["NO_COLOR"] = "1"
    try:
        _, app = on_screen([sick_tick()])
        assert app.no_color
    finally:
        os.environ.pop("NO_COLOR")
        if before is not None:
            os.environ["NO_COLOR"] = before


def test_an_svg_of_the_screen_carries_the_verdict():
    kept = []

    async def act(app, pilot):
        kept.append(app.export_screenshot())

    on_screen([sick_tick()], act, size=(80, 24))
    assert kept[0].startswith("<svg") and "loader-bound" in kept[0]


def test_memory_that_grows_shows_its_rate():
    from gpudoctor.ui.watch.panels import trend

    rank = make_rank(tree_rss=series([GIB + i * (1 << 20) for i in range(121)]))
    assert trend([rank]) == "+60.0 MiB/min"
    assert trend([make_rank(tree_rss=series([GIB] * 10))]) == "so far"
