"""The child: a request as JSON on standard input, the answer as JSON in the file named by the first argument.

Whatever the model's code prints goes to standard error, which the parent keeps for its sentence.
"""

import json
import os
import sys
import warnings
from typing import Any

from gpudoctor.errors import DoctorError


def main() -> int:
    """Answer one request; 0 unless torch itself brings the process down."""
    [path] = sys.argv[1:]
    request = json.load(sys.stdin)
    os.dup2(2, 1)
    warnings.filterwarnings("ignore")
    # nothing of a trace may touch a card or the network
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    try:
        answer = _answer(request)
    except DoctorError as error:
        answer = {"error": str(error), "exit_code": error.exit_code}
    except Exception as error:  # noqa: BLE001 - the code that runs here is transformers' or PEFT's
        answer = {"error": f"its own code fails on fake tensors: {_words(error)}", "exit_code": 3}
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(answer, stream)
    return 0


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    return {"traced": [_job(request, fields) for fields in request["jobs"]], "model": _model(request)}


def _job(request: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """One job's trace, or why there is none."""
    from gpudoctor.estimate.job import TrainingJob
    from gpudoctor.estimate.traced.trace_job import trace

    try:
        job = TrainingJob(**{**fields, "lora_targets": tuple(fields["lora_targets"])})
        return trace(_source(request), job, workspace=request["workspace"]).to_object()
    except DoctorError as error:
        if len(request["jobs"]) == 1:
            raise
        return {"error": str(error)}
    except Exception as error:
        if len(request["jobs"]) == 1:
            raise
        return {"error": f"its own code fails on fake tensors: {_words(error)}"}


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
