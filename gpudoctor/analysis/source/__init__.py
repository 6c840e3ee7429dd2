"""What a script says of its training: answers that checks and rules need, from its signs alone."""
