"""`offline.scratch`: trackers write into the trial's folder and send nothing; pushes to a hub are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .patching import wrap

if TYPE_CHECKING:
    from . import Trial

_PUSHES = (
    "create_repo", "delete_repo", "move_repo", "update_repo_settings", "upload_file", "upload_folder",
    "upload_large_folder", "create_commit", "create_branch", "delete_branch", "create_tag", "delete_tag",
    "delete_file", "delete_files", "delete_folder", "create_pull_request", "create_discussion",
)  # fmt: skip


class Refused:
    """What a refused push gives: whatever is asked of it is the same nothing."""

    def __init__(self, words: str = "") -> None:
        self._words = words

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        """Itself."""
        return self

    def __str__(self) -> str:
        return self._words


def apply(trial: Trial, _detail: str, value: Any) -> None:
    """Force wandb offline whatever the program says, and take the pushes out of huggingface_hub."""
    when = trial.probe.when_imported
    when("wandb", lambda module: wrap(module, "init", lambda original: _offline(original, str(value))))
    when("huggingface_hub.hf_api", _refuse)
    when("transformers.training_args", lambda module: _no_push(module))


def _offline(original: Any, folder: str) -> Any:
    def init(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("mode") != "disabled":
            kwargs["mode"] = "offline"
        return original(*args, **{**kwargs, "dir": folder})

    return init


def _refuse(module: Any) -> None:
    for name in _PUSHES:
        # Functions of the module are methods of one instance, taken when it was made.
        for owner in (module.HfApi, module):
            wrap(owner, name, _nothing)


def _nothing(original: Any) -> Any:
    name = getattr(original, "__name__", "")

    def refused(*args: Any, **kwargs: Any) -> Any:
        words = [word for word in (*args, kwargs.get("repo_id")) if isinstance(word, str)]
        return Refused(words[0] if words else name)

    return refused


def _no_push(module: Any) -> None:
    def make(original: Any) -> Any:
        def __post_init__(self: Any) -> None:
            self.push_to_hub = False
            original(self)

        return __post_init__

    wrap(module.TrainingArguments, "__post_init__", make)
