"""Rules on the topic: memory."""
