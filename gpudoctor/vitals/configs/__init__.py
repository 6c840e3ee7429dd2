"""Config files: read with the place of every key, recognised by content, brought to canonical names.

Nothing is imported, built or expanded from a config: YAML tags are not obeyed, interpolations are left alone.
What walks folders is imported when it is first asked for: one named file needs none of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpudoctor.vitals.configs.config_text import UnreadConfig
from gpudoctor.vitals.configs.reading import parse, read_configs

if TYPE_CHECKING:
    from gpudoctor.vitals.configs.reading import find_configs, looks_like_config, looks_like_kubernetes_job

__all__ = ["UnreadConfig", "find_configs", "looks_like_config", "looks_like_kubernetes_job", "parse", "read_configs"]


def __getattr__(name: str) -> Any:
    """A public name of `reading`; it stays here, so this happens once a name."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.reading"), name)
    globals()[name] = value
    return value
