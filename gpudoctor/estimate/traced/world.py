"""The world in which a job is followed: fake tensors, CUDA's choices, answers that fakes cannot give."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from gpudoctor.estimate.traced.cuda import cuda_choices


@contextmanager
def fake_world() -> Iterator[None]:
    """Inside, tensors have shapes and types and no memory, and operations choose what CUDA would choose."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with ExitStack() as stack:
        for target, name, value in _answers():
            if hasattr(target, name):
                stack.enter_context(patch.object(target, name, value))
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        stack.enter_context(cuda_choices())
        yield


def _answers() -> list[tuple[Any, str, Any]]:
    """What transformers asks of a mask's or positions' values, which decides whether a mask is made at all: no
    row is padded, and none is packed of several."""
    if "transformers" not in sys.modules:  # a script may do without
        return []
    from transformers import masking_utils

    return [
        (masking_utils, "find_packed_sequence_indices", lambda *_: None),
        (masking_utils, "fast_all", lambda *_: True),
        (masking_utils, "is_tracing", lambda *_: False),
    ]
