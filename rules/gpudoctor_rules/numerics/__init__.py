"""Rules on the topic: numerics."""
