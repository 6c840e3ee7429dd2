"""Answers to how a run died."""
