"""What keeps a run's writes from the user's files: a program closes the door and becomes the command."""
