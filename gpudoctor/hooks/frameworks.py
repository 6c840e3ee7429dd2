"""The classes that transformers, Lightning and Accelerate call: each begins and ends a recording.

Nothing of theirs runs in a step: the probe's hooks do the work, as under `gpudoctor run`.
"""

import os
from typing import Any

from gpudoctor.hooks.in_process import RunRecording


def transformers_callback() -> type:
    """A `transformers.TrainerCallback`."""
    from transformers import TrainerCallback

    class TransformersCallback(TrainerCallback):  # type: ignore[misc]
        """Records `Trainer.train()`. `recording` names a folder and `report` a page, if they are given."""

        def __init__(self, recording: "str | os.PathLike[str] | None" = None, report: str | None = None) -> None:
            self.recording = RunRecording(recording, report=report)

        def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            """The training begins."""
            self.recording.start()

        def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            """The training ends; one that raises is ended with the program."""
            self.recording.stop()

    return TransformersCallback


def lightning_callback() -> type:
    """A Callback of `lightning`, or of `pytorch_lightning` where that alone is installed."""
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback

    class LightningCallback(Callback):  # type: ignore[misc]
        """Records `Trainer.fit()`. `recording` names a folder and `report` a page, if they are given."""

        def __init__(self, recording: "str | os.PathLike[str] | None" = None, report: str | None = None) -> None:
            self.recording = RunRecording(recording, report=report)

        def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
            """The training begins."""
            self.recording.start()

        def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
            """The training ends."""
            self.recording.stop()

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            """The training dies."""
            self.recording.stop(exception)

    return LightningCallback


def accelerate_tracker() -> type:
    """A tracker of `accelerate`."""
    from accelerate.tracking import GeneralTracker

    class AccelerateTracker(GeneralTracker):  # type: ignore[misc]
        """Records from `accelerator.init_trackers(...)` to `accelerator.end_training()`."""

        name = "gpudoctor"
        requires_logging_directory = False
        main_process_only = False

        def __init__(self, recording: "str | os.PathLike[str] | None" = None, report: str | None = None) -> None:
            super().__init__()
            self.recording = RunRecording(recording, report=report)

        @property
        def tracker(self) -> RunRecording:
            """The recording."""
            return self.recording

        def start(self) -> None:
            """The training begins."""
            if self.recording.folder is None:
                self.recording.start()

        def store_init_configuration(self, values: dict[str, Any]) -> None:
            """The training begins, for releases of accelerate that do not call `start`."""
            self.start()

        def log(self, values: dict[str, Any], step: int | None = None, **more: Any) -> None:
            """Losses are read from the training itself."""
            self.start()

        def finish(self) -> None:
            """The training ends."""
            self.recording.stop()

    return AccelerateTracker


MAKERS = {
    "AccelerateTracker": accelerate_tracker,
    "LightningCallback": lightning_callback,
    "TransformersCallback": transformers_callback,
}
