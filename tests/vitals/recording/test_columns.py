"""Blocks of columns are joined at the cost of their rows."""

from array import array

from gpudoctor.vitals.recording.gdr_file import Columns


def test_a_column_that_comes_and_goes_is_copied_once():
    """Each block appends in place: a copy a block would cost the blocks squared."""
    columns = Columns()
    columns.append(2, {"t": array("d", [1, 2]), "loss": array("f", [3, 4])})
    columns.append(2, {"t": array("d", [3, 4])})
    before = columns.columns["loss"]
    for number in range(4):
        columns.append(1, {"t": array("d", [5]), **({"loss": array("f", [6])} if number % 2 else {})})
    assert columns.columns["loss"] is before
    assert [value for value in columns.columns["loss"] if value == value] == [3, 4, 6, 6]
    assert len(columns.columns["loss"]) == len(columns.columns["t"]) == 8
