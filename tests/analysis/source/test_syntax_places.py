import pytest

from gpudoctor.analysis.source.syntax_places import lines_at
from gpudoctor.model import SourceSpan


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ([("train.py", 7)], "line 7"),
        ([("train.py", 9), ("train.py", 7), ("train.py", 7)], "lines 7, 9"),
        ([("train.py", 9), ("net.py", 7), ("net.py", 3)], "line 9; lines 3, 7 of net.py"),
        ([("job/net.py", 7)], "line 7 of net.py"),
        ([("train.py", n) for n in range(1, 10)], "lines 1, 2, 3, 4, 5, 6 and 3 more"),
    ],
)
def test_places_name_their_file_where_it_is_another(places, words):
    spans = [SourceSpan(path=path, line=line, column=1, end_line=line, text="") for path, line in places]
    assert lines_at(spans, "train.py", 6) == words
