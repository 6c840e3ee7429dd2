"""Text for a terminal, a pipe or a job log."""
