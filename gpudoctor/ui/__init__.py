"""What people see: the console report, the progress line, the live view."""
