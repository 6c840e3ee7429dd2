"""Rules on the topic: observability."""
