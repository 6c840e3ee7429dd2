"""Config files: read with the place of every key, recognised by content, brought to canonical names.

Nothing is imported, built or expanded from a config: YAML tags are not obeyed, interpolations are left alone.
"""

from gpudoctor.vitals.configs.reading import parse, read_configs
from gpudoctor.vitals.configs.text import Unread
from gpudoctor.vitals.configs.walking import find_configs, looks_like_config, looks_like_kubernetes_job

__all__ = ["Unread", "find_configs", "looks_like_config", "looks_like_kubernetes_job", "parse", "read_configs"]
