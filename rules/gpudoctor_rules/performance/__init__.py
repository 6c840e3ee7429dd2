"""Rules on the topic: performance."""
