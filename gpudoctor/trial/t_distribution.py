"""Student's t for whole degrees of freedom, in closed form (Abramowitz & Stegun 26.7.3 and 26.7.4)."""

import math
from functools import cache


def student_cdf(t: float, degrees: int) -> float:
    """P(T <= t). Raises `ValueError` for less than one degree of freedom."""
    if degrees < 1:
        raise ValueError(f"degrees of freedom must be at least 1, not {degrees}")
    angle = math.atan2(t, math.sqrt(degrees))
    cosine, sine = math.cos(angle), math.sin(angle)
    even = degrees % 2 == 0
    term = total = 1.0 if even else cosine
    if degrees == 1:
        total = 0.0
    for k in range(1 if even else 2, degrees - 2, 2):
        term *= k / (k + 1) * cosine**2
        total += term
    share = sine * total if even else 2 / math.pi * (angle + sine * total)
    return 0.5 + share / 2


@cache
def student_quantile(probability: float, degrees: int) -> float:
    """The t with P(T <= t) = `probability`, by bisection to 1e-9. Raises `ValueError` outside (0, 1)."""
    if not 0 < probability < 1:
        raise ValueError(f"a probability lies between 0 and 1, not {probability}")
    if probability < 0.5:
        return -student_quantile(1 - probability, degrees)
    low, high = 0.0, 1.0
    while student_cdf(high, degrees) < probability:
        low, high = high, 2 * high
    while high - low > 1e-9 * max(1.0, high):
        middle = (low + high) / 2
        low, high = (middle, high) if student_cdf(middle, degrees) < probability else (low, middle)
    return (low + high) / 2
