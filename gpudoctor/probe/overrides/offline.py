"""`offline.scratch`: trackers write into the trial's folder and send nothing; pushes are refused.

What was kept from being sent is noted in the folder, a line each, for the report.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import wrap

if TYPE_CHECKING:
    from . import Trial

NOTES = "not-sent"
"""File of the folder with the notes."""

_FORCED: tuple[tuple[str, str, dict[str, Any], tuple[str, ...]], ...] = (
    ("wandb", "init", {"mode": "offline", "dir": "{place}"}, ()),
    ("neptune.metadata_containers.run", "Run", {"mode": "offline"}, ("with_id",)),
    ("neptune_scale", "Run", {"mode": "offline"}, ()),
    ("aim.sdk.run", "Run", {"repo": "{place}/aim"}, ("run_hash", "force_resume")),
    ("swanlab", "init", {"mode": "offline", "log_dir": "{place}", "logdir": "{place}"}, ("id", "resume")),
    ("trackio", "init", {}, ("space_id", "dataset_id", "bucket_id", "server_url", "webhook_url")),
    ("comet_ml", "start", {"online": False}, ("mode", "experiment_key")),
)
"""Module, function or class, arguments that are set, arguments that are left out."""

_PUSHES = (
    "create_repo", "delete_repo", "move_repo", "update_repo_settings", "upload_file", "upload_folder",
    "upload_large_folder", "preupload_lfs_files", "create_commit", "create_branch", "delete_branch",
    "create_tag", "delete_tag", "delete_file", "delete_files", "delete_folder", "create_pull_request",
    "create_discussion", "super_squash_history",
)  # fmt: skip
_PUSHING = (
    ("transformers.utils.hub", "PushToHubMixin", "push_to_hub"),
    ("transformers.trainer", "Trainer", "push_to_hub"),
    ("huggingface_hub.hub_mixin", "ModelHubMixin", "push_to_hub"),
    ("datasets.arrow_dataset", "Dataset", "push_to_hub"),
    ("datasets.dataset_dict", "DatasetDict", "push_to_hub"),
)
_CHANGING = ("Put", "Create", "Upload", "Complete", "Copy", "Delete")
"""How names of S3's operations begin that change a bucket."""


class RefusedUpload(str):
    """What a refused push gives: whatever is asked of it is the same text."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        """Itself."""
        return self


def apply(trial: Trial, _detail: str, value: Any) -> None:
    """Force trackers offline whatever the program says, and take the pushes out of what has some."""
    place, when = str(value), trial.probe.when_imported
    notes = _Notes(place)
    for module, name, arguments, dropped in _FORCED:
        given = {key: item.format(place=place) if isinstance(item, str) else item for key, item in arguments.items()}
        when(module, lambda found, n=name, g=given, d=dropped: _force(found, n, g, d, notes))
    when("mlflow", lambda found: _mlflow(found, notes))
    for name in ("Experiment", "ExistingExperiment"):
        when("comet_ml", lambda found, n=name: wrap(found, n, notes.refusing))
    for module, kind, name in _PUSHING:
        when(module, lambda found, k=kind, n=name: wrap(getattr(found, k), n, notes.refusing))
    # Functions of the hub's module are methods of one instance, taken when it was made.
    when("huggingface_hub.hf_api", lambda found: [
        wrap(owner, name, notes.refusing) for name in _PUSHES for owner in (found.HfApi, found)
    ])  # fmt: skip
    when("transformers.training_args", _no_push)
    for module, kind in (("botocore.client", "BaseClient"), ("aiobotocore.client", "AioBaseClient")):
        when(module, lambda found, k=kind: _buckets(getattr(found, k), notes))


class _Notes:
    def __init__(self, place: str) -> None:
        self._path = os.path.join(place, NOTES)
        self._told: set[str] = set()

    def tell(self, words: str) -> None:
        """Note it, once a process."""
        if words not in self._told:
            self._told.add(words)
            try:
                with open(self._path, "a", encoding="utf-8") as stream:
                    stream.write(words[:200].replace("\n", " ") + "\n")
            except OSError:
                pass

    def refusing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A method in its place that does nothing but note what it was to push."""
        name = getattr(original, "__name__", "push")

        def refused(*args: Any, **kwargs: Any) -> Any:
            words = [kwargs.get("repo_id"), *args[:2]]
            target = next((word for word in words if isinstance(word, str)), "")
            self.tell(f"{name} {target}".strip())
            return RefusedUpload(target or name)

        return refused


def _force(module: Any, name: str, given: dict[str, Any], dropped: tuple[str, ...], notes: _Notes) -> None:
    """Set and leave out arguments of a function, or of what a class is made with."""
    target = getattr(module, name)
    label = module.__name__.partition(".")[0]

    def make(original: Any) -> Any:
        signature = inspect.signature(original)
        known = set(signature.parameters)

        def forced(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind_partial(*args, **kwargs)
            if bound.arguments.get("mode") != "disabled":
                notes.tell(label)
                for key in dropped:
                    bound.arguments.pop(key, None)
                bound.arguments.update({key: value for key, value in given.items() if key in known})
            return original(*bound.args, **bound.kwargs)

        return forced

    if isinstance(target, type):
        wrap(target, "__init__", make)
    else:
        wrap(module, name, make)


def _mlflow(module: Any, notes: _Notes) -> None:
    """The store is the one that the environment names, in the trial's folder."""

    def ignored(_original: Any) -> Any:
        return lambda *_args, **_kwargs: None

    utils: Any = module.tracking._tracking_service.utils
    for owner in (module, module.tracking, utils):
        wrap(owner, "set_tracking_uri", ignored)
        wrap(owner, "set_registry_uri", ignored)

    def client(original: Any) -> Any:
        def __init__(self: Any, *_args: Any, **_kwargs: Any) -> None:
            notes.tell("mlflow")
            original(self)

        return __init__

    wrap(module.tracking.MlflowClient, "__init__", client)


def _no_push(module: Any) -> None:
    def make(original: Any) -> Any:
        def __post_init__(self: Any) -> None:
            self.push_to_hub = False
            original(self)

        return __post_init__

    wrap(module.TrainingArguments, "__post_init__", make)


def _buckets(kind: Any, notes: _Notes) -> None:
    """S3: what is to change a bucket is answered as if it had."""

    def make(original: Any) -> Any:
        def call(self: Any, operation: str, parameters: Any) -> Any:
            if self.meta.service_model.service_name != "s3" or not operation.startswith(_CHANGING):
                return original(self, operation, parameters)
            notes.tell(f"{operation} s3://{parameters.get('Bucket', '')}/{parameters.get('Key', '')}")
            answer = {"ETag": "refused", "UploadId": "refused", "ResponseMetadata": {"HTTPStatusCode": 200}}
            return _later(answer) if inspect.iscoroutinefunction(original) else answer

        return call

    wrap(kind, "_make_api_call", make)


async def _later(answer: Any) -> Any:
    return answer
