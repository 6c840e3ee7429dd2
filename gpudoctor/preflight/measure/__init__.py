"""What a worker measures, in the training's interpreter: Python 3.9, the standard library and torch only."""
