"""Readers that take a patient's signs. Each returns its sign's data or raises `Unavailable`."""
