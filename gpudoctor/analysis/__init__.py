"""Answers that several checks and rules need about a script or a config, from its signs alone."""
