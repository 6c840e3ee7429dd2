"""The data of each sign that can be taken of a patient: plain frozen values, no readers."""
