"""How C++ programs print an error of a CUDA or HIP call: as a line, without an exception of Python."""

_FORMS = (
    r"(?:\b(?:CUDA|Cuda|cuda|HIP|hip)(?: [a-zA-Z]{1,10})? ?(?:[Ee]rror|ERROR|[Ff]ailure)\b[^\n]{0,120}?[^\w\n]|"
    r"GPUassert: |(?:cuda|hip)Success \(\d{1,4} vs\. \d{1,4}\) {1,4}|"
    r"\bfailed: (?:cuda|hip)Error\w{1,60}: |(?:cuda|hip)Success\] {1,4}|"
    r"\.cuh?(?:: ?\d{1,6}|\(\d{1,6}\)): |\bparallel_for failed: )"
)


def call_failed(errors: str) -> str:
    """A regular expression for a line that says that a call failed with one of these errors, an alternation."""
    return rf"{_FORMS}'?(?:{errors})"


def check_failed(numbers: str) -> str:
    """A regular expression for a failed check of glog on a CUDA call, by the number of its error."""
    return rf"Check failed: [^\n]{{1,160}}?== ?(?:cuda|hip)Success \((?:{numbers}) vs\. 0\)"
