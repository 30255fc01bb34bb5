# SPDX-License-Identifier: MIT
"""Where figures are published: a table between the markers of its section in docs/performance.md, and
every figure in bench/results/."""
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "performance.md"
RESULTS = ROOT / "bench" / "results"


class Lost(Exception):
    """There is nowhere to publish."""


def publish(section, report, text):
    begin, end = f"<!-- bench:{section} -->", f"<!-- /bench:{section} -->"
    page = PAGE.read_text()
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise Lost(f"docs/performance.md has lost its markers of {section}")
    before, after = page[:page.index(begin)], page[page.index(end):]
    PAGE.write_text(f"{before}{begin}\n{text}\n{after}")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{section}.json").write_text(
        json.dumps(report, indent=2, ensure_ascii=False) + "\n")


def table_of(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(one) + " |" for one in rows])


def verdict_table(verdicts):
    """Of {what, reach, measured, reached}."""
    return table_of(["what", "reach", "measured", "reached"],
                    [[one["what"], one["reach"], one["measured"],
                      "yes" if one["reached"] else "**no**"] for one in verdicts])
