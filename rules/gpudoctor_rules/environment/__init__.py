"""Rules on the topic: environment."""
