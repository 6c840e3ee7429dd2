"""stub"""

from typing import Any


def trace_script(path: str, arguments: list[str], workspace: int) -> Any:
    """Not yet."""
    raise NotImplementedError
