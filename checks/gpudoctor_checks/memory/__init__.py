"""Checks on the topic: memory."""
