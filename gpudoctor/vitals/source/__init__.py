"""The reader of training scripts: `read_source`. It never imports or runs what it reads.

A script is interpreted abstractly, once, in the order in which it would run: `statements` and `expressions`
walk the syntax tree and keep for each name an `AbstractValue` (type, value, device, meaning as a condition).
A call of the program's own function interprets its body with what the call passes, and again only while call
sites bring new facts, four times at most; `importing` follows modules beside the script. Each scope leaves a
`Record` of what it does under which guards and loops. `roles` then decides which loops train, `events`
unrolls a pass of a loop through the functions it calls, when a check looks at it, and `engines` adds the
hidden loops of Trainers.

What libraries give is told by `kinds` (names and kinds), `tables`, `library`, `tensors`, `methods`;
conditions by `guards`; command lines and configs by `configuration` and `commandline`.
"""

from gpudoctor.vitals.source.reader import read_source

__all__ = ["read_source"]
