"""Rules on the topic: data."""
