"""The mend: from remedies that carry edits to new text, a diff, and files written whole or not at all."""
