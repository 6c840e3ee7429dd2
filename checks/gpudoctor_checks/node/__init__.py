"""Checks on the topic: nodes and links under load."""
