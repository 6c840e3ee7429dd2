"""Checks on the topic: config."""
