"""The traced model: a job's own code on fake tensors, every storage followed. Runs in a child process."""
