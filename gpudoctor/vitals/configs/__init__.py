"""Config files: read with the place of every key, recognised by content, brought to canonical names.

Nothing is imported, built or expanded from a config: YAML tags are not obeyed, interpolations are left alone.
"""
