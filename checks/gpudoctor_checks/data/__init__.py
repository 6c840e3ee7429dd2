"""Checks on the topic: data."""
