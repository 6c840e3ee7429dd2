"""Config files: read with the place of every key, recognised by content, brought to canonical names.

Nothing is imported, built or expanded from a config: YAML tags are not obeyed, interpolations are left alone.
"""

from gpudoctor.vitals.configs.config_text import UnreadConfig
from gpudoctor.vitals.configs.reading import (
    find_configs,
    looks_like_config,
    looks_like_kubernetes_job,
    parse,
    read_configs,
)

__all__ = ["UnreadConfig", "find_configs", "looks_like_config", "looks_like_kubernetes_job", "parse", "read_configs"]
