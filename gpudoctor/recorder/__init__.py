"""Takes a recording: starts the command with the probe, samples the machine beside it, writes how it ended.

The command keeps its terminal, its streams, its process group and its signals; the format of what is written is
docs/recording.md's, and `gpudoctor.vitals.recording` reads it.
"""
