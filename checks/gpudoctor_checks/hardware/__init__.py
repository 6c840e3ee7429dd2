"""Checks on the topic: hardware."""
