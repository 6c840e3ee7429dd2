"""Rules on the topic: sync."""
