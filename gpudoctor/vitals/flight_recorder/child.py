"""The process that reads dumps: paths come line by line, and what each of them holds goes back in their order.

A hostile dump may crash it or fill its memory: then the file that it was at is not read, and another process
goes on behind it.
"""

import gc
import json
import marshal
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpudoctor.model.external_files import is_packed, open_unpacked, unpacked_most
from gpudoctor.model.read_limits import FLIGHT_DUMP, FLIGHT_READER
from gpudoctor.text import size
from gpudoctor.vitals.flight_recorder.condense import condense
from gpudoctor.vitals.plain_pickle import NotPlain

LENGTH = struct.Struct("<I")


def main() -> int:
    """Answer each line of the standard input until it ends."""
    with suppress(ImportError, ValueError, OSError):  # Windows has no such limit
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (FLIGHT_READER.most, resource.getrlimit(resource.RLIMIT_AS)[1]))
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    gc.disable()  # the values of a dump form no circles
    for line in sys.stdin.buffer:
        data = marshal.dumps(answer(json.loads(line)))
        sys.stdout.buffer.write(LENGTH.pack(len(data)) + data)
        sys.stdout.buffer.flush()
    return 0


def answer(path: str) -> Any:
    """What a dump holds, or a clause why it cannot be read."""
    try:
        return condense(_bytes(path))
    except OSError as error:
        return error.strerror or str(error)
    except NotPlain as error:
        return str(error)
    except MemoryError:
        return f"reading it needs more memory than {size(FLIGHT_READER.most)}"
    except RecursionError:
        return "it nests too deep"


def _bytes(path: str) -> bytes:
    stored = Path(path).stat().st_size
    if stored == 0:
        raise NotPlain("it is empty")
    most = unpacked_most(stored, FLIGHT_DUMP) if is_packed(path) else FLIGHT_DUMP.most
    with open_unpacked(path) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise NotPlain(f"it is {FLIGHT_DUMP.words}")
    return data
