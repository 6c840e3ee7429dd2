"""Recordings (docs/recording.md) read from folders, those of several nodes joined."""
