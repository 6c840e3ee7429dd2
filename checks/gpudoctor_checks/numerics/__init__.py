"""Checks on the topic: numerics."""
