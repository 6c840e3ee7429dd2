"""Checks on the topic: observability."""
