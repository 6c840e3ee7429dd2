"""What a job's logs prove: the first cause of its death, and what only followed."""
