#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Turns a file into C: `embed.py IN OUT.c SYMBOL` defines SYMBOL[] and SYMBOL_len. A NUL follows the
bytes and does not count."""
import json
import pathlib
import re
import sys

BYTES_A_LINE = 16


def compact(path, content):
    """JSON goes in without the blanks that people need."""
    if path.suffix != ".json":
        return content
    return json.dumps(json.loads(content), ensure_ascii=False, separators=(",", ":")).encode()


def rows(content):
    for start in range(0, len(content), BYTES_A_LINE):
        yield "    " + " ".join(f"{byte}," for byte in content[start:start + BYTES_A_LINE])


def main():
    if len(sys.argv) != 4 or not re.fullmatch(r"[a-z_][a-z0-9_]*", sys.argv[3]):
        sys.exit("usage: embed.py IN OUT.c SYMBOL")
    source, target, symbol = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    content = compact(source, source.read_bytes())
    lines = [
        "/* SPDX-License-Identifier: MIT",
        f" *\n * {source.name}, made by tools/embed.py.\n */",
        "#include <stddef.h>\n",
        f"extern const unsigned char {symbol}[];",
        f"extern const size_t {symbol}_len;\n",
        f"const unsigned char {symbol}[] = {{",
        *rows(content),
        "    0,\n};",
        f"const size_t {symbol}_len = sizeof {symbol} - 1;\n",
    ]
    target.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
