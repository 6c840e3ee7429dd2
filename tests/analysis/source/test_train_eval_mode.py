"""Layers that depend on the mode, in words."""

import pytest

from gpudoctor.analysis.source.train_eval_mode import layer_words, verb


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["Dropout"], "dropout works"),
        (["Dropout2d", "BatchNorm1d"], "dropout and batch norm work"),
        ([], "layers that depend on the mode work"),
    ],
)
def test_the_verb_fits_the_layers(names, words):
    layers = layer_words(names)
    assert f"{layers} {verb(layers)}" == words
