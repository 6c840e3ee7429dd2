"""Rules on the topic: config."""
