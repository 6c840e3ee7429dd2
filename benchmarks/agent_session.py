"""A scripted agent cures `examples/train_crops.py` by the tools of `gpudoctor mcp` alone: a transcript.

    python benchmarks/agent_session.py [--budget 600] [--seconds 60] [--changes 3] [--machine WORDS]
        [--date DATE] [--commit ID] [--output FILE]

The agent knows what the server says: the descriptions of the tools, and in each answer the call to make
next. It follows the first of these. Two decisions are its own, as the description of `verify` asks for: the
command trains long enough to be cut short, and the budget is the user's. It has the script in a folder of
its own, and reads no other file.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = "train_crops.py"
LONG = ["--epochs", "400"]
SHOWN = 2600
"""Characters of an answer in the page."""


async def session(folder, budget, seconds, changes, tell):
    """The whole session; gives the answers by tool."""
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": str(ROOT)}
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "gpudoctor", "mcp"], cwd=str(folder / "job"), env=environment
    )
    answers = {}
    async with stdio_client(server) as streams, ClientSession(*streams) as client:
        await client.initialize()

        async def call(tool, **arguments):
            notes = []

            async def told(progress, _total, message):
                notes.append(f"{progress:.0f} s: {message}")

            began = time.monotonic()
            done = await client.call_tool(tool, arguments, progress_callback=told)
            answer = json.loads("".join(part.text for part in done.content))
            tell(tool, arguments, notes, answer, time.monotonic() - began)
            answers.setdefault(tool, []).append(answer)
            if "error" in answer and tool != "verify":
                raise SystemExit(f"{tool}: {answer['error']}")
            return answer

        def following(answer, tool):
            return next((dict(item["arguments"]) for item in answer["next"] if item["tool"] == tool), None)

        async def until(tool, answer, wanted, most=3):
            """Call a tool again as its answers propose, until one proposes something else."""
            for _ in range(most):
                found = await call(tool, **wanted)
                if (done := following(found, answer)) is not None:
                    return found, done
                again = following(found, tool)
                if again is None:
                    return found, None
                wanted = again
            return found, None

        async def proven(wanted):
            """Try one remedy after the other until one is proven; gives the call that writes it."""
            tried = set()
            while wanted and (left := [name for name in wanted["remedies"] if name not in tried]):
                tried.add(left[0])  # change one thing
                one = {**wanted, "remedies": left[:1], "budget_seconds": budget}
                found = await call("verify", **one)
                if "error" in found:  # the finding did not come again: the next remedy
                    continue
                if (edit := following(found, "apply")) is not None:
                    return edit
                wanted = following(found, "verify")
            return None

        found = await call("check", targets=[SCRIPT])
        wanted = following(found, "run")
        wanted["command"] = [*wanted["command"], *LONG]
        first, verify = await until("run", "verify", {**wanted, "seconds": seconds})
        last = first
        for _ in range(changes):
            edit = await proven(verify)
            if edit is None:
                break
            await call("apply", **edit, dry_run=True)
            written = await call("apply", **edit)
            last = await call("run", **following(written, "run"), seconds=seconds)
            verify = following(last, "verify")
            if verify is None or not verify.get("remedies"):
                break
        await call("compare", before=first["recording"], after=last["recording"])
    return answers


class Page:
    """The transcript as Markdown."""

    def __init__(self, folder):
        self.folder = folder
        self.lines = []

    def tell(self, tool, arguments, notes, answer, seconds):
        """One call."""
        sys.stderr.write(f"{tool}: {seconds:.0f} s: {answer.get('verdict', answer.get('error', ''))}\n")
        self.lines += [f"## {tool}", "", "```json", self.short(arguments), "```", ""]
        if notes:
            middle = notes[len(notes) // 2]
            self.lines += [
                f"{len(notes)} progress notes in {seconds:.0f} s; one of them: `{self.clean(middle)}`",
                "",
            ]
        self.lines += ["```json", self.short(answer), "```", ""]

    def clean(self, text):
        """Without the names of this machine's folders."""
        return text.replace(str(self.folder), "/home/you").replace(sys.prefix, "/home/you/.venv")

    def short(self, value):
        """Indented, cut at a line."""
        text = self.clean(json.dumps(value, indent=1, ensure_ascii=False))
        if len(text) <= SHOWN:
            return text
        kept = text[:SHOWN].rpartition("\n")[0]
        return f"{kept}\n ... ({len(text) - len(kept):,} characters more)"


def main():
    """Run the session and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float, default=600.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--changes", type=int, default=3, help="most changes, one after the other")
    parser.add_argument("--machine", default="a machine")
    parser.add_argument("--date", default="")
    parser.add_argument("--commit", default="")
    parser.add_argument("--output", type=Path)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="agent-") as place:
        folder = Path(place)
        (folder / "job").mkdir()
        shutil.copy(ROOT / "examples" / SCRIPT, folder / "job")
        page = Page(folder)
        answers = anyio.run(session, folder, words.budget, words.seconds, words.changes, page.tell)
    comparison = answers["compare"][0]
    rows = [
        row
        for answer in answers["verify"]
        for row in answer["trial"]["rows"]
        if row["conclusion"] in ("proven", "cured")
    ]
    head = [
        "# A session of an agent",
        "",
        f"Made by `benchmarks/agent_session.py` on {words.machine}, {words.date}, commit {words.commit}.",
        f"A scripted client cures `examples/{SCRIPT}` with the tools of `gpudoctor mcp` alone.",
        "It follows the `next` of each answer, one change at a time.",
        "",
        f"Proven: {', '.join(row['name'] for row in rows)}. Afterwards: {comparison['verdict']}",
        "",
    ]
    text = "\n".join([*head, *page.lines]).rstrip() + "\n"
    if words.output:
        words.output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
