"""Trends: slopes that outliers do not move, significance that holds on noise, growth told from a plateau."""

import random

import pytest
from recordings import NAN, make_process, make_steps

from gpudoctor.analysis.run.memory_growth import growth
from gpudoctor.analysis.run.trends import mann_kendall, trend

MIB = float(1 << 20)


def test_kendall_agrees_with_published_values():
    # worked out by hand: six values, one pair the wrong way round
    tau, p = mann_kendall([1, 3, 2, 4, 5, 6])
    assert tau == pytest.approx(13 / 15)
    assert p == pytest.approx(0.0243, abs=5e-4)  # z = 12 / sqrt(6 * 5 * 17 / 18)
    assert mann_kendall([5.0] * 9) == (0.0, 1.0)


def test_noise_is_hardly_ever_a_trend():
    dice = random.Random(1)
    found = 0
    for _ in range(200):
        ys = [dice.gauss(0.0, 1.0) for _ in range(200)]
        result = trend(range(200), ys)
        found += result.p < 0.001
    assert found <= 1


def leaking(n=400, per_step=0.25 * MIB, noise=0.1 * MIB, shape=lambda i, n: i, every=1):
    dice = random.Random(3)
    values = [2000 * MIB + per_step * shape(i, n) + dice.gauss(0.0, noise) if i % every == 0 else NAN for i in range(n)]
    return make_process(make_steps(n, rss=values))


def test_growth_is_measured():
    found = growth(leaking(), "rss")
    assert found.per_step == pytest.approx(0.25 * MIB, rel=0.02)
    assert found.bytes == pytest.approx(0.25 * MIB * 337, rel=0.03)
    assert found.seconds_to(found.last + found.per_second * 60) == pytest.approx(60)


def test_growth_is_measured_where_few_rows_have_a_reading():
    assert growth(leaking(every=16), "rss").per_step == pytest.approx(0.25 * MIB, rel=0.05)


@pytest.mark.parametrize(
    "shape",
    [
        lambda i, n: min(i, n // 3),  # caches fill up and stay
        lambda i, n: n * (1 - 0.97**i),  # a settling allocator
        lambda i, n: i % 50,  # an epoch's buffers
        lambda i, n: i % (n // 2),  # of two epochs, the second of which has not ended
        lambda i, n: (i + 60) % 160,  # an epoch that ends as the recording does
        lambda i, n: 0,
        lambda i, n: -i,
        lambda i, n: 40 * (i > n // 2),  # one step up
    ],
    ids=["plateau", "settling", "saw", "two teeth", "last tooth", "flat", "falling", "jump"],
)
def test_what_comes_to_rest_is_no_growth(shape):
    assert growth(leaking(per_step=MIB, shape=shape), "rss") is None


def test_growth_over_the_ends_of_epochs_is_found():
    assert growth(leaking(shape=lambda i, n: i + i % 50), "rss").per_step == pytest.approx(0.25 * MIB, rel=0.1)
    assert growth(leaking(shape=lambda i, n: i if i < 120 else i - 120), "rss") is not None  # outgrown since


def test_small_growth_must_be_even():
    """An allocator whose free blocks do not fit grows in jumps; 25 MiB of that are no leak."""
    jumps = leaking(shape=lambda i, n: 30 * (i // 30), per_step=0.06 * MIB, noise=0.0, every=8)
    assert growth(jumps, "rss") is None
    even = growth(leaking(per_step=0.06 * MIB, noise=0.0, every=8), "rss")
    assert even.bytes == pytest.approx(0.06 * MIB * 337, rel=0.05)
    much = growth(leaking(shape=lambda i, n: 30 * (i // 30), noise=0.0, every=8), "rss")
    assert much.bytes > 64 * MIB
    assert growth(leaking(shape=lambda i, n: i % 80, noise=0.0), "rss") is None  # it falls back at each epoch's end
