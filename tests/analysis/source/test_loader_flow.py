"""Which loader a loop draws from."""

import textwrap

import pytest
from scripts import read_script

from gpudoctor.analysis.source.loaders import LoaderRole, loaders

TURNS = """
    import torch
    from torch.utils.data import DataLoader
    net = torch.nn.Linear(8, 8).cuda()
    rule = torch.optim.SGD(net.parameters(), lr=0.1)
    def fit(source):
        for epoch in range(9):
            for x, y in source:
                loss = torch.nn.functional.cross_entropy(net(x.cuda()), y.cuda())
                loss.backward()
                rule.step()
                rule.zero_grad()
    def score(source):
        with torch.no_grad():
            for x, y in source:
                print(net(x.cuda()).argmax(1).eq(y.cuda()).sum())
    def go(again):
        {body}
    go(3)
"""
FIRST, SECOND = "feed = DataLoader(torch.load('1'))", "feed = DataLoader(torch.load('2'))"


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ((FIRST, "fit(feed)", SECOND, "score(feed)"), {18}),
        ((FIRST, "score(feed)", SECOND, "fit(feed)"), {20}),
        ((FIRST, "fit(feed)", f"with torch.no_grad(): {SECOND}", "score(feed)"), {18}),
        ((FIRST, f"if again: {SECOND}", "fit(feed)"), {18, 19}),
        ((f"while again: {FIRST}; fit(feed); {SECOND}; score(feed)",), {18}),
        ((FIRST, f"while again: fit(feed); {SECOND}",), {18, 19}),
        ((FIRST, "feed = iter(feed)", "fit(feed)"), {18}),
        ((FIRST, f"try: {SECOND}", "except OSError: pass", "fit(feed)"), {18, 19}),
    ],
)  # fmt: skip
def test_of_two_loaders_that_a_name_holds_in_turn_the_one_at_the_loop(body, lines):
    source = read_script(textwrap.dedent(TURNS).format(body="\n    ".join(body)))
    found = {loader.call.span.line for loader in loaders(source) if loader.role is LoaderRole.TRAINING}
    assert found == lines
