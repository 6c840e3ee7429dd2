"""Checks on the topic: distributed."""
