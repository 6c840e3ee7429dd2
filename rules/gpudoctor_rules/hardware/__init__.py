"""Rules on the topic: hardware."""
