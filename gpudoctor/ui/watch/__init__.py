"""The live view: a Textual application whose widgets are pure functions of one tick and one view."""
