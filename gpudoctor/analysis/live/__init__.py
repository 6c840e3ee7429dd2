"""What checks read out of a window of a watched process: shares by stack samples, trends, who stands where."""
