"""Checks on the topic: performance."""
