"""What a run really trained, from the records of `gpudoctor/probe/training`: a line of the card a module."""
