"""Reads flight-recorder dumps, thousands of files at a time (`read_dumps`)."""
