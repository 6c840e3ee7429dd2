"""The child of `estimate --trace`: jobs in, what a trace says of each out."""

import os
import sys
import warnings
from typing import Any

from gpudoctor.errors import DoctorError, IncompleteError
from gpudoctor.estimate.ask_child import answered


def main() -> int:
    """Answer one request; 0 unless torch itself brings the process down."""
    warnings.filterwarnings("ignore")
    # nothing of a trace may touch a card or the network
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    return answered(_answer)


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"traced": [_job(request, fields) for fields in request["jobs"]], "model": _model(request)}
    except DoctorError as error:
        raise type(error)("--trace: {error}", error=error) from None
    except Exception as error:  # noqa: BLE001 - the code that runs here is transformers' or PEFT's
        raise IncompleteError("--trace: its own code fails on fake tensors: {words}", words=_words(error)) from None


def _job(request: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """One job's trace; of several, why there is none."""
    from gpudoctor.estimate.job import TrainingJob
    from gpudoctor.estimate.traced.trace_job import trace

    try:
        job = TrainingJob(**{**fields, "lora_targets": tuple(fields["lora_targets"])})
        return trace(_source(request), job, workspace=request["workspace"]).to_object()
    except Exception as error:
        if len(request["jobs"]) == 1:
            raise
        known = isinstance(error, DoctorError)
        return {"error": str(error) if known else f"its own code fails on fake tensors: {_words(error)}"}


def _source(request: dict[str, Any]) -> Any:
    if request["config"] is not None:
        return request["config"]
    from gpudoctor.estimate.shapes import shape_of

    return shape_of(request["shape"])


def _model(request: dict[str, Any]) -> dict[str, Any]:
    """The model's widths as its configuration has them."""
    from gpudoctor.estimate.real.config import hf_config

    config = hf_config(_source(request))
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size")
    return {name: getattr(config, name, None) for name in names} | {"model_type": config.model_type}


def _words(error: BaseException) -> str:
    """An exception in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
