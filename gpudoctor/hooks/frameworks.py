"""The classes that transformers, Lightning and Accelerate call: each begins and ends a recording.

Nothing of theirs runs in a step: the probe's hooks do the work, as under `gpudoctor run`.
"""

import os
from typing import Any

from gpudoctor.hooks.in_process import RunRecording


class _Recorder:
    """What they have in common: `recording` names a folder and `report` a page, if they are given."""

    def __init__(self, recording: "str | os.PathLike[str] | None" = None, report: str | None = None) -> None:
        super().__init__()
        self.recording = RunRecording(recording, report=report)

    def begins(self, *_: Any, **__: Any) -> None:
        """The training begins."""
        self.recording.start()

    def ends(self, *_: Any, **__: Any) -> None:
        """The training ends; one that raises is ended with the program."""
        self.recording.stop()


def transformers_callback() -> type:
    """A `transformers.TrainerCallback`."""
    from transformers import TrainerCallback

    class TransformersCallback(_Recorder, TrainerCallback):  # type: ignore[misc]
        """Records `Trainer.train()`."""

        on_train_begin, on_train_end = _Recorder.begins, _Recorder.ends

    return TransformersCallback


def lightning_callback() -> type:
    """A Callback of `lightning`, or of `pytorch_lightning` where that alone is installed."""
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback

    class LightningCallback(_Recorder, Callback):  # type: ignore[misc]
        """Records `Trainer.fit()`."""

        on_fit_start, on_fit_end = _Recorder.begins, _Recorder.ends

        def on_exception(self, _trainer: Any, _module: Any, exception: BaseException) -> None:
            """The training dies."""
            self.recording.stop(exception)

    return LightningCallback


def accelerate_tracker() -> type:
    """A tracker of `accelerate`."""
    from accelerate.tracking import GeneralTracker

    class AccelerateTracker(_Recorder, GeneralTracker):  # type: ignore[misc]
        """Records from `accelerator.init_trackers(...)` to `accelerator.end_training()`."""

        name = "gpudoctor"
        requires_logging_directory = False
        main_process_only = False

        @property
        def tracker(self) -> RunRecording:
            """The recording."""
            return self.recording

        def start(self, *_: Any, **__: Any) -> None:
            """The training begins, or logs: losses are read from the training itself."""
            if self.recording.folder is None:
                self.recording.start()

        store_init_configuration = log = start  # the former for releases of accelerate that do not call `start`
        finish = _Recorder.ends

    return AccelerateTracker


MAKERS = {
    "AccelerateTracker": accelerate_tracker,
    "LightningCallback": lightning_callback,
    "TransformersCallback": transformers_callback,
}
