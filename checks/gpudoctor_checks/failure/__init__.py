"""How a run died."""
