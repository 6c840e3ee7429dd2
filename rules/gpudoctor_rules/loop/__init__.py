"""Rules on the topic: loop."""
