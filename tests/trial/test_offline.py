"""Trackers and hubs in a trial: nothing is sent. Stand-ins with the interfaces of the real ones; no network."""

import json
import os
from pathlib import Path

import pytest
from packages import need
from probed import PROBE, run_script

need("torch")

MODULES = {
    "wandb.py": """
def init(project=None, mode=None, dir=None):
    print("wandb", project, mode, dir)
""",
    "swanlab.py": """
def init(*, project=None, mode=None, log_dir=None, resume=None, **kwargs):
    print("swanlab", project, mode, log_dir, resume, kwargs)
""",
    "aim/__init__.py": "from aim.sdk.run import Run",
    "aim/sdk/__init__.py": "",
    "aim/sdk/run.py": """
class Run:
    def __init__(self, run_hash=None, *, repo=None, experiment=None):
        print("aim", run_hash, repo, experiment)
""",
    "comet_ml.py": """
class Experiment:
    def __init__(self, api_key=None, workspace=None, project_name=None, log_code=True):
        print("online")
""",
    "mlflow/__init__.py": """
from mlflow import tracking
from mlflow.tracking import MlflowClient, fluent, set_tracking_uri, set_registry_uri
from mlflow.tracking.fluent import set_experiment
""",
    "mlflow/tracking/__init__.py": """
from mlflow.tracking import _tracking_service, fluent
from mlflow.tracking._tracking_service.utils import set_registry_uri, set_tracking_uri
class MlflowClient:
    def __init__(self, tracking_uri=None, registry_uri=None):
        print("client", tracking_uri)
""",
    "mlflow/tracking/_tracking_service/__init__.py": "from mlflow.tracking._tracking_service import utils",
    "mlflow/tracking/_tracking_service/utils.py": """
def set_tracking_uri(uri):
    print("uri", uri)
set_registry_uri = set_tracking_uri
""",
    "mlflow/tracking/fluent.py": """
import mlflow
def set_experiment(experiment_name=None, experiment_id=None):
    print("experiment", experiment_name, experiment_id)
""",
    "huggingface_hub/__init__.py": "from huggingface_hub.hf_api import HfApi, create_repo, upload_folder",
    "huggingface_hub/hf_api.py": """
class HfApi:
    def create_repo(self, repo_id, *, private=False):
        print("created")
    def upload_folder(self, *, repo_id, folder_path):
        print("uploaded")
    def model_info(self, repo_id):
        print("info", repo_id)
_api = HfApi()
create_repo, upload_folder = _api.create_repo, _api.upload_folder
""",
    "botocore/__init__.py": "",
    "botocore/client.py": """
class BaseClient:
    def _make_api_call(self, operation, parameters):
        print("called", operation)
""",
}
PROGRAM = """
import types
import torch
import wandb, swanlab, aim, comet_ml, mlflow, huggingface_hub
from botocore.client import BaseClient
wandb.init("p", mode="online")
wandb.init("q", mode="disabled")
swanlab.init(project="p", mode="cloud", resume="must", extra=1)
aim.Run("hash", repo="aim://server", experiment="e")
comet_ml.Experiment("key", "w", "p", log_code=False).log_metric("loss", 1.0)
mlflow.set_tracking_uri("https://server")
mlflow.tracking.set_tracking_uri("https://server")
mlflow.MlflowClient("https://server")
mlflow.set_experiment("e")
url = huggingface_hub.create_repo("me/model", private=True)
huggingface_hub.HfApi().upload_folder(repo_id=url.repo_id, folder_path=".")
huggingface_hub.HfApi().model_info("me/model")
client = BaseClient()
client.meta = types.SimpleNamespace(service_model=types.SimpleNamespace(service_name="s3"))
client._make_api_call("GetObject", {"Bucket": "b", "Key": "k"})
print(client._make_api_call("PutObject", {"Bucket": "b", "Key": "k"})["ETag"], url)
"""


@pytest.mark.slow
def test_trackers_write_into_the_scratch_place_and_pushes_are_refused(tmp_path: Path):
    folder, place = tmp_path / "job", tmp_path / "scratch"
    place.mkdir()
    for name, text in MODULES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    overrides = json.dumps({"offline.scratch": str(place)})
    # An interpreter of its own: the process that forks may have the real packages already.
    path = os.pathsep.join((str(PROBE / "site"), str(folder)))
    run = run_script(folder, PROGRAM, prefix="", start=True, GPUDOCTOR_OVERRIDES=overrides, PYTHONPATH=path)
    assert run.result.stdout.splitlines() == [
        f"wandb p offline {place}", "wandb q disabled None", f"swanlab p offline {place} None {{'extra': 1}}",
        f"aim None {place}/aim e", "client None", "experiment e None", "info me/model", "called GetObject", "refused me/model",
    ], run.result.stderr  # fmt: skip
    assert (place / "not-sent").read_text().splitlines() == [
        "wandb", "swanlab", "aim", "Experiment key", "mlflow", "create_repo me/model", "upload_folder me/model",
        "PutObject s3://b/k",
    ]  # fmt: skip
