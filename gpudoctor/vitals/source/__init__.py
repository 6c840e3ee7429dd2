"""The reader of training scripts: `read_source`. It never imports or runs what it reads.

Each module is indexed in one walk: which statements bind which names, and who holds whom (`index`). What an
expression gives is looked up backwards when somebody asks (`program`, with `expressions`, `calls`, `settings`): from
a use to the bindings that reach it, from a parameter to its call sites, from a call to the returns. `passes` lists
what each scope executes under which guards and loops; `loop_roles` decides which loops train, `events` unrolls a
pass through the functions that it calls, and `engines` adds the hidden loops of Trainers.
"""

from gpudoctor.vitals.source.reader import read_source

__all__ = ["read_source"]
