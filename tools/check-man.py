#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds docs/man to the headers and the program, so that the pages cannot fall behind:

- every function of include/daruma has its exact prototype in the SYNOPSIS of a page, and its name
  in that page's NAME; no page has a prototype that the headers have not
- every struct and typedef that a page shows is the headers', and every daruma_* and DARUMA_* word
  exists there
- a constant that a page gives a value (.Dv NAME Pq VALUE) has that value
- every example program compiles without a warning
- every flag of a command is in its page, and no other
- every page is installed by docs/man/meson.build, and groff has nothing to say about it
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAN = ROOT / "docs" / "man"
CLI = ROOT / "src" / "cli"


def squeezed(text):
    """A prototype without the freedom that spaces and stars have."""
    return re.sub(r"\s*([(),*])\s*", r"\1", " ".join(text.split()))


def header_text():
    texts = [path.read_text() for path in sorted((ROOT / "include" / "daruma").glob("*.h"))]
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", "\n".join(texts), flags=re.S)


def declared(text):
    """name -> prototype, of what the headers declare and of what they define inline."""
    code = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.M)
    pattern = r"([\w*][\w\s*]*?[\s*])(daruma_\w+)\(([^(){};]*)\)\s*([;{])"
    exported, inline = {}, {}
    for kind, name, arguments, ending in re.findall(pattern, code):
        kind = kind.replace("static inline", "").strip()
        if not re.search(r"\b(return|else)\b", kind):
            found = inline if ending == "{" else exported
            found[name] = squeezed(f"{kind} {name}({arguments})")
    return exported, inline


def words_of(line):
    return [first or second for first, second in re.findall(r'"([^"]*)"|(\S+)', line)]


def prototypes(page):
    """name -> prototype, from .Ft with .Fn, or with .Fo, .Fa and .Fc, in the SYNOPSIS."""
    found, kind, name, arguments = {}, None, None, []
    for line in page.split(".Sh SYNOPSIS", 1)[-1].split("\n.Sh ", 1)[0].splitlines():
        macro, *words = words_of(line) or [""]
        if macro == ".Ft":
            kind = " ".join(words)
        elif macro == ".Fn" and kind:
            name, arguments = words[0], words[1:]
        elif macro == ".Fo":
            name, arguments = words[0], []
        elif macro == ".Fa":
            arguments.append(words[0])
        if macro in (".Fn", ".Fc") and kind:
            found[name] = squeezed(f"{kind} {name}({', '.join(arguments)})")
            kind = None
    return found


def check_functions(pages, text):
    exported, inline = declared(text)
    shown = {}
    for page, content in pages.items():
        named = set(re.findall(r"^\.Nm (\w+)", content.split(".Sh LIBRARY")[0], re.M))
        for name, prototype in prototypes(content).items():
            shown[name] = page
            known = exported.get(name) or inline.get(name)
            if known != prototype:
                yield f"{page}: {prototype}: the headers have {known}"
            if name not in named:
                yield f"{page}: {name} is not in its NAME"
    for name in sorted(set(exported) - set(shown)):
        yield f"include/daruma: {name} is on no page"
    if len(exported) < 50:
        yield f"include/daruma: only {len(exported)} functions were found; is this script right?"


def literals(content):
    """What stands in literal displays, as it will be seen."""
    for block in re.findall(r"^\.Bd -literal[^\n]*\n(.*?)^\.Ed", content, re.M | re.S):
        yield block.replace("\\-", "-").replace("\\e", "\\")


def check_types(pages, text):
    known = squeezed(text)
    shown = re.compile(r"^(?:struct \w+ \{.*?^\};|typedef .*?;)", re.M | re.S)
    for page, content in pages.items():
        for block in literals(content):
            if not block.startswith("#include"):
                plain = re.sub(r"/\*.*?\*/", " ", block, flags=re.S)
                for kind in shown.findall(plain):
                    if squeezed(kind) not in known:
                        yield f"{page}: not as in the headers: {kind.splitlines()[0]}"


def check_examples(pages, _text):
    compiler = ["cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
                f"-I{ROOT / 'include'}", "-x", "c", "-"]
    for page, content in pages.items():
        for block in literals(content):
            if block.startswith("#include"):
                done = subprocess.run(compiler, input=block, text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, check=False)
                if done.returncode != 0:
                    yield f"{page}: its example: {done.stdout}"


def check_words(pages, text):
    known = set(re.findall(r"\w+", text))
    known |= {f"DARUMA_{name}" for name in re.findall(r"\bX\((\w+),", text)}
    for source in CLI.glob("*.c"):  # the environment
        known |= set(re.findall(r'"(DARUMA_\w+)"', source.read_text()))
    for prefix, table in (("CLASS", "DARUMA_CLASS_MAP"), ("STOP", "DARUMA_STOP_MAP")):
        rows = re.search(rf"#define {table}\(X\)((?:[^\n]*\\\n)*[^\n]*)", text).group(1)
        known |= {f"DARUMA_{prefix}_{name}" for name in re.findall(r"X\((\w+),", rows)}
    for page, content in pages.items():
        files = {path.stem for path in MAN.iterdir()}
        for word in sorted(set(re.findall(r"\b(?:daruma_|DARUMA_)\w+", content))):
            if word not in known and word not in files and word.lower() not in files:
                yield f"{page}: {word} is not in the headers"


def check_values(pages, text):
    values = dict(re.findall(r"#define (DARUMA_\w+)\s+(\S+)", text))
    for page, content in pages.items():
        for name, value in re.findall(r"\.(?:Dv|It Dv) (DARUMA_\w+) Pq (\S+)", content):
            if values.get(name) != value:
                yield f"{page}: {name} is {values.get(name)}, not {value}"


def flags_of(name):
    """The flags in the tables of a source file, whichever way its rows are written."""
    return set(re.findall(r'^ +\{(?:\.name = )?"--?([\w-]+)"', (CLI / name).read_text(), re.M))


def check_flags(pages, _text):
    common = flags_of("flags.c") | {"help"}
    flags = {"retry": flags_of("retry_flags.c"), "check": flags_of("cli_check.c") | {"json", "help"}}
    for command in ("audit", "enqueue", "queue", "queues", "run", "settle", "show", "summarize", "tasks",
                    "unsettled"):
        flags[command] = flags_of(f"cli_{command}.c") | common
    flags["dead"] = set().union(common, *(flags_of(path.name) for path in CLI.glob("cli_dead_*.c")))
    for command in ("audit", "dead", "unsettled"):  # a macro that their tables share
        flags[command] |= {"limit", "all"}
    for command in ("compact", "export", "flush", "import", "key", "restore", "send",
                    "spool"):  # these ask no server
        flags[command] = flags_of(f"cli_{command}.c") | {"json", "help"}
    for command, known in flags.items():
        page = f"daruma-{command}.1"
        listed = "\n".join(re.findall(r"^\.It (Fl .*)$", pages[page], re.M))
        described = set(re.findall(r"\bFl -?([\w-]+)", listed)) - {"h"}
        for flag in sorted(known ^ described):
            where = "the page only" if flag in described else "the program only"
            yield f"{page}: {flag} is in {where}"


def check_installed(pages, _text):
    built = (MAN / "meson.build").read_text()
    for page in pages:
        if f"'{page}'" not in built:
            yield f"docs/man/meson.build: {page} is missing"


def check_groff(pages, _text):
    for page in pages:
        done = subprocess.run(["groff", "-mandoc", "-ww", "-z", "-Tutf8", str(MAN / page)],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False)
        for line in done.stdout.splitlines():
            yield f"{page}: {line}"


def main():
    pages = {path.name: path.read_text() for path in sorted(MAN.glob("*.[1-9]"))}
    text = header_text()
    checks = (check_functions, check_types, check_words, check_values, check_examples,
              check_flags, check_installed, check_groff)
    findings = [finding for check in checks for finding in check(pages, text)]
    for finding in findings:
        print(finding)
    return 1 if findings or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
