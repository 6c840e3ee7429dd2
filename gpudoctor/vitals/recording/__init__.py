"""Recordings (docs/recording.md) read from folders and zip files, those of several nodes joined."""
