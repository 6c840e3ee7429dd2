"""Recordings (docs/recording.md) read from folders and zip files, those of several nodes joined."""

from gpudoctor.vitals.recording.opening import open_recording
from gpudoctor.vitals.recording.reader import read_recording

__all__ = ["open_recording", "read_recording"]
