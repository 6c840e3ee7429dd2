"""Checks on the topic: loop."""
