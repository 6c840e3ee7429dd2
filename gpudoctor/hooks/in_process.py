"""`gpudoctor.record()`: a recording of this very process, from here to the end of the block, and its report."""

import atexit
import hashlib
import html
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from gpudoctor.errors import IncompleteError, UsageError
from gpudoctor.hooks.flat_summary import flat, rendered_report
from gpudoctor.model.external_files import load_json
from gpudoctor.recorder.folder import (
    MANIFEST,
    CommandEnd,
    keep_scripts,
    new_folder,
    state_folder,
    write_end,
    write_manifest,
)

_PROBE = Path(__file__).resolve().parents[1] / "probe"
_OTHERS = 10.0
"""Seconds that the first rank of a node waits for the files of the others."""
_HEIGHT = 720
"""Pixels of the report in a notebook's cell."""
_open: list["RunRecording"] = []
"""The one that is being made: a process has one at a time."""
_counts = {"made": 0}


class RunRecording:
    """A recording of this process: a context manager, or `start` and `stop`.

    `folder` is where it is written (default: a new one in the user's state folder), `report` a file for the
    report (.html, .md, .json). Under `gpudoctor run` it does nothing, because that records already.
    """

    def __init__(
        self, folder: "str | os.PathLike[str] | None" = None, *, report: str | None = None, quiet: bool = False
    ) -> None:
        self._chosen, self._page, self._quiet = folder, report, quiet
        self.folder: Path | None = None
        """Where the recording is, once it has begun."""
        self._probe: Any = None
        self._machine: Any = None
        self._gpus: Any = None
        self._began = 0.0
        self._reports: dict[str, str] = {}

    # -- begin and end

    def start(self) -> "RunRecording":
        """Begin. Raises `UsageError` without torch; whatever else fails is said, and the program goes on."""
        if os.environ.get("GPUDOCTOR_RECORDING") and not os.environ.get("GPUDOCTOR_DISABLE"):
            self._say("gpudoctor run records this process already; record() does nothing")
            return self
        if self._probe is not None:
            return self
        if "torch" not in sys.modules:
            try:
                import torch  # noqa: F401
            except ImportError as error:
                raise UsageError(f"record() needs torch ({error}); pip install torch") from error
        for other in list(_open):
            other.stop()
        self._reports = {}
        self._begin()
        return self

    def _begin(self) -> None:
        folder, remark = self._new_folder()
        self._say(remark.removeprefix("gpudoctor: "))
        self.folder = folder
        self._began = time.monotonic()
        if _first_here():
            if not (folder / MANIFEST).exists():
                write_manifest(folder, getattr(sys, "orig_argv", sys.argv), {})
            with suppress(Exception):  # the report reads the files then
                keep_scripts(folder, sys.orig_argv)
            with suppress(Exception):  # the machine's rows are missing then, and the report says so
                from gpudoctor.recorder.machine import GpuReadings, MachineSampler

                self._gpus = GpuReadings(os.environ)
                self._machine = MachineSampler(folder, os.getpid(), self._gpus, self._began)
        try:
            self._probe = _embedded().begin(str(_PROBE), str(folder), {})
        except Exception as error:  # noqa: BLE001  # the training goes on without a recording
            self._say(f"the recording could not begin ({type(error).__name__}: {error})")
            return
        _open.append(self)
        atexit.register(self._at_exit)

    def stop(self, error: BaseException | None = None) -> None:
        """End; an error is what ended the training. The report is shown by the first rank of a node."""
        probe, self._probe = self._probe, None
        if probe is None:
            return
        atexit.unregister(self._at_exit)
        _open.remove(self)
        _embedded().end(probe, error if isinstance(error, Exception) else None)
        machine, gpus, self._machine, self._gpus = self._machine, self._gpus, None, None
        if machine is not None:
            machine.close()
        if gpus is not None:
            gpus.close()
        if not _first_here() or self.folder is None:
            return
        lost = int(machine.lost_bytes) if machine is not None else 0
        deadline = time.monotonic() + _OTHERS
        while time.monotonic() < deadline and any(True for _ in self.folder.glob("live-*.json")):
            time.sleep(0.1)
        write_end(self.folder, _ending(error, time.monotonic() - self._began, lost))
        with suppress(IncompleteError, UsageError):
            self._show()

    def _at_exit(self) -> None:
        """The program ends inside: by an exception that the interpreter has shown, or in order."""
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        self.stop(error if isinstance(error, BaseException) else None)

    def __enter__(self) -> "RunRecording":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(error)

    def _new_folder(self) -> tuple[Path, str]:
        """The folder named, or one in the state folder that all ranks of a node arrive at."""
        if self._chosen is not None and _first_here():
            return new_folder(str(self._chosen))
        if self._chosen is not None or os.environ.get("LOCAL_WORLD_SIZE", "1") not in ("", "1"):
            folder = Path(self._chosen) if self._chosen is not None else state_folder() / _shared_name()
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return folder.absolute(), ""
        _counts["made"] += 1
        if _counts["made"] > 1:  # the usual name has the process and the second in it
            name = f"run-{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}-{_counts['made']}"
            return new_folder(str(state_folder() / name))
        return new_folder(None)

    # -- the report

    @property
    def recording(self) -> bool:
        """Whether it is being made."""
        return self._probe is not None

    def report(self) -> dict[str, Any]:
        """The JSON report as plain data. Raises `IncompleteError` where it cannot be made."""
        try:
            found: dict[str, Any] = load_json(self.render("json"))
        except ValueError as error:
            raise IncompleteError(f"the report of {self.folder} cannot be read: {error}") from error
        return found

    def summary(self) -> dict[str, float]:
        """The numbers of the report in one flat dict, for an experiment tracker."""
        return flat(self.report())

    @property
    def verdict(self) -> str:
        """What the report says first."""
        return str(self.report()["summary"]["verdict"])

    def render(self, how: str) -> str:
        """The report in a format of `gpudoctor report`. Raises `IncompleteError`."""
        if self.folder is None or self._probe is not None:
            raise IncompleteError("there is no report before the recording has ended")
        if how not in self._reports:
            self._reports[how] = rendered_report(self.folder, how)
        return self._reports[how]

    def _show(self) -> None:
        if self._page is not None:
            how = {".html": "html", ".md": "markdown", ".json": "json"}.get(Path(self._page).suffix.lower(), "text")
            text = self.render(how)
            with suppress(OSError):
                Path(self._page).write_text(text, encoding="utf-8")
        if self._quiet:
            return
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        if shell is not None and hasattr(shell, "kernel"):  # a notebook's, which can show a page
            from IPython.display import display

            display(self)
            return
        where = self._page or f"gpudoctor report {self.folder}"
        self._say(f"{self.verdict} Report: {where}")

    def _repr_html_(self) -> str:
        """The report in the cell of a notebook: a page of its own, so that no style leaks in or out."""
        if self._probe is not None or self.folder is None:
            return f"<p>{html.escape(repr(self))}</p>"
        try:
            page = self.render("html")
        except (IncompleteError, UsageError) as error:
            return f"<p>{html.escape(str(error))}</p>"
        return (
            f'<iframe srcdoc="{html.escape(page, quote=True)}" width="100%" height="{_HEIGHT}" '
            'style="border:0" sandbox="allow-scripts"></iframe>'
        )

    def __repr__(self) -> str:
        if self.folder is None:
            return "<gpudoctor recording: not begun>"
        if self._probe is not None:
            return f"<gpudoctor recording: in progress, {self._probe.steps.index:,} steps, {self.folder}>"
        return f"<gpudoctor recording: {self.folder}>"

    def _say(self, text: str) -> None:
        if text and not self._quiet and _first_here():
            bars: Any = getattr(sys.modules.get("tqdm"), "tqdm", None)
            with suppress(OSError, ValueError, AttributeError):
                if getattr(bars, "_instances", None):  # a progress bar that is there is cleared first and drawn again
                    bars.write(f"gpudoctor: {text}", file=sys.stderr)
                else:
                    sys.stderr.write(f"gpudoctor: {text}\n")

    def __getstate__(self) -> Mapping[str, Any]:
        """A copy in another process or in a checkpoint has not begun."""
        return {"_chosen": self._chosen, "_page": self._page, "_quiet": self._quiet}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(state["_chosen"], report=state["_page"], quiet=state["_quiet"])  # type: ignore[misc]


def record(
    folder: "str | os.PathLike[str] | None" = None, *, report: str | None = None, quiet: bool = False
) -> RunRecording:
    """Record the training in the block: `with gpudoctor.record() as recording: train()`.

    In a notebook the report appears below the cell; elsewhere a line on standard error. `recording.report()` is
    the JSON report, `recording.summary()` its numbers. Raises `UsageError` without torch.
    """
    return RunRecording(folder, report=report, quiet=quiet)


def _embedded() -> Any:
    """The probe's own module, loaded as `gpudoctor run` loads it: under a name that no other version has."""
    names: dict[str, Any] = {"__name__": "_gpudoctor_boot", "__file__": str(_PROBE / "boot.py")}
    exec(compile((_PROBE / "boot.py").read_bytes(), names["__file__"], "exec"), names)
    return names["load"](str(_PROBE), ".embedded")


def _first_here() -> bool:
    """Whether this is the first rank of its node."""
    return os.environ.get("LOCAL_RANK", "0") in ("", "0")


def _shared_name() -> str:
    """A folder name that all ranks of one launch on this node arrive at."""
    import psutil

    started = psutil.Process(os.getppid()).create_time()
    keys = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
    _counts["made"] += 1
    launch = "|".join(
        [str(os.getppid()), f"{started:.2f}", str(_counts["made"]), *(os.environ.get(k, "") for k in keys)]
    )
    return f"run-{datetime.fromtimestamp(started):%Y%m%d-%H%M%S}-{hashlib.sha256(launch.encode()).hexdigest()[:8]}"


def _ending(error: BaseException | None, seconds: float, lost: int) -> CommandEnd:
    interrupted = isinstance(error, KeyboardInterrupt)
    failed = error is not None and not (isinstance(error, SystemExit) and not error.code)
    return CommandEnd(
        exit_code=130 if interrupted else 1 if failed else 0,
        signal=None,
        seconds=round(seconds, 3),
        stopped_by="interrupt" if interrupted else None,
        lost_bytes=lost,
    )
