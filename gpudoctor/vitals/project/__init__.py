"""Versions that a project asks for, read from its own files; nothing is run or imported."""

from gpudoctor.vitals.project.reader import read_project_versions

__all__ = ["read_project_versions"]
