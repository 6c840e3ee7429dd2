"""Recordings (docs/recording.md) read from folders and zip files, those of several nodes joined."""

from gpudoctor.vitals.recording.reader import read_recording

__all__ = ["read_recording"]
