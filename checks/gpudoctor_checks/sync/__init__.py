"""Checks on the topic: sync."""
