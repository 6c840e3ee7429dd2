"""Rules on the topic: distributed."""
