#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a user of the library gets: `make install` into an empty folder, and programs outside the
tree that are built against that copy alone, by pkg-config."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
PROGRAM = r"""
#include <daruma/retry.h>
#include <daruma/version.h>
#include <stdio.h>
#include <string.h>

static int third_time(void *user, const struct daruma_attempt *attempt, struct daruma_error *error)
{
    unsigned *calls = (unsigned *)user;
    ++*calls;
    error->message = "not yet";
    return attempt->number < 3 ? 7 : 0;
}

int main(void)
{
    struct daruma_retry_options options;
    unsigned calls = 0;
    memset(&options, 0, sizeof options);
    options.backoff = daruma_backoff_exponential(1);
    if (daruma_retry(third_time, &calls, &options, NULL) != 0 || calls != 3) {
        return 1;
    }
    printf("%s after %u calls\n", daruma_version(), calls);
    return strcmp(daruma_version(), DARUMA_VERSION) != 0;
}
"""


class Failure(Exception):
    """What was claimed does not hold."""


def run(*command, env=None):
    done = subprocess.run([str(part) for part in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env={**os.environ, **(env or {})}, check=False)
    if done.returncode != 0:
        raise Failure(f"{' '.join(str(part) for part in command)}\n{done.stdout}")
    return done.stdout


class Installed:
    """A copy of the library in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.prefix = folder / "usr"
        build = folder / "build"
        run("meson", "setup", build, ROOT, f"--prefix={self.prefix}", "--libdir=lib")
        run("ninja", "-C", build)
        run("meson", "install", "-C", build)
        self.env = {"PKG_CONFIG_PATH": str(self.prefix / "lib/pkgconfig")}

    def flags(self, *options):
        return run("pkg-config", *options, "daruma", env=self.env).split()

    def compile(self, compiler, name, text, *more):
        source, program = self.folder / name, self.folder / (name + ".bin")
        source.write_text(text)
        run(*compiler, *WARNINGS, source, *self.flags("--cflags"), "-o", program, *more)
        return program


def a_c_program_builds_against_the_shared_library(copy):
    program = copy.compile(["gcc", "-std=c11"], "shared.c", PROGRAM, *copy.flags("--libs"))
    print(run(program, env={"LD_LIBRARY_PATH": str(copy.prefix / "lib")}).strip())


def a_c_program_builds_against_the_static_library(copy):
    program = copy.compile(["gcc", "-std=c11"], "static.c", PROGRAM, copy.prefix / "lib/libdaruma.a")
    print(run(program).strip())


def a_cpp_program_builds_against_the_shared_library(copy):
    program = copy.compile(["g++", "-std=c++17"], "shared.cc", PROGRAM, *copy.flags("--libs"))
    print(run(program, env={"LD_LIBRARY_PATH": str(copy.prefix / "lib")}).strip())


def the_program_of_each_readme_builds_and_runs(copy):
    for readme in ["README.md", "README.ja.md"]:
        [program] = re.findall(r"^```c\n(.*?)^```$", (ROOT / readme).read_text(), re.M | re.S)
        built = copy.compile(["cc"], "fetch.c", program, *copy.flags("--libs"))
        run(built, env={"LD_LIBRARY_PATH": str(copy.prefix / "lib")})


def every_header_compiles_alone_as_c_and_as_cpp(copy):
    headers = sorted((copy.prefix / "include/daruma").glob("*.h"))
    if len(headers) < 12:
        raise Failure(f"only {len(headers)} headers were installed")
    for header in headers:
        text = f"#include <daruma/{header.name}>\nint main(void) {{ return 0; }}\n"
        more = ["-D_POSIX_C_SOURCE=200809L"] if header.name == "retry_uv.h" else []  # uv.h wants it
        copy.compile(["gcc", "-std=c11", *more], f"{header.stem}.c", text, "-c")
        copy.compile(["clang-14", "-std=c11", *more], f"{header.stem}.c", text, "-c")
        copy.compile(["g++", "-std=c++11"], f"{header.stem}.cc", text, "-c")


def only_names_of_the_library_are_visible(copy):
    shared = run("nm", "-D", "--defined-only", "--format=posix", copy.prefix / "lib/libdaruma.so")
    static = run("nm", "-g", "--defined-only", "--format=posix", copy.prefix / "lib/libdaruma.a")
    for name in re.findall(r"^(\S+) [A-Z] ", shared + static, re.M):
        if not name.startswith(("daruma_", "DARUMA_")):
            raise Failure(f"{name} is visible outside")
    for name in re.findall(r"^(\S+) [A-Z] ", shared, re.M):
        if name.startswith(("daruma_step_", "daruma_core_", "daruma_timers_", "daruma_env_",
                            "daruma_cancel_is_own")):
            raise Failure(f"{name} is internal and exported")


def every_declared_function_is_exported(copy):
    shared = run("nm", "-D", "--defined-only", "--format=posix", copy.prefix / "lib/libdaruma.so")
    exported = set(re.findall(r"^(daruma_\w+)\S* T ", shared, re.M))
    for header in sorted((copy.prefix / "include/daruma").glob("*.h")):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        text = re.sub(r"^#.*(?:\\\n.*)*", "", text, flags=re.M)
        for name in re.findall(r"^(?!static|typedef)[\w ]+?[ *](daruma_\w+)\(", text, re.M):
            if name not in exported:
                raise Failure(f"{header.name} declares {name}, the library lacks it")


def the_library_needs_nothing_but_libc(copy):
    needed = re.findall(r"NEEDED.*\[(.+?)\]", run("readelf", "-d", copy.prefix / "lib/libdaruma.so"))
    if [name for name in needed if not name.startswith(("libc.so", "ld-linux"))]:
        raise Failure(f"needs {needed}")
    soname = re.findall(r"SONAME.*\[(.+?)\]", run("readelf", "-d", copy.prefix / "lib/libdaruma.so"))
    if soname != ["libdaruma.so.0"]:
        raise Failure(f"soname {soname}")


def the_library_cannot_abort_print_or_allocate(copy):
    wanted = run("nm", "-D", "--undefined-only", "--format=posix", copy.prefix / "lib/libdaruma.so")
    calls = set(re.findall(r"^(\w+)", wanted, re.M))
    for name in calls:
        if re.fullmatch(r"abort|_?exit|raise|kill|__assert\w*|v?f?printf|f?puts|f?putc\w*|fwrite|perror|"
                        r"\w*alloc|free|strn?dup|pthread_\w+", name):
            raise Failure(f"it calls {name}")
    if "clock_gettime" not in calls:
        raise Failure(f"only {sorted(calls)} was found")


def manual_pages_and_the_program_are_installed(copy):
    for page in ["man1/daruma-retry.1", "man3/daruma_retry.3"]:
        if not list((copy.prefix / "share/man").glob(page + "*")):
            raise Failure(f"no {page}")
    print(run(copy.prefix / "bin/daruma", "version").strip())


def a_unit_for_systemd_runs_what_is_installed(copy):
    unit = copy.prefix / "lib/systemd/system/daruma.service"
    program = str(copy.prefix / "bin/daruma")
    run("systemd-analyze", "verify", "--man=no", unit)
    starts = re.findall(r"^ExecStart(?:Pre)?=(\S+) (.+)$", unit.read_text(), re.M)
    if [start[0] for start in starts] != [program, program]:
        raise Failure(f"it starts {starts}")
    example = copy.prefix / "share/doc/daruma/daruma.yaml"
    print(run(program, "check", "-c", example).strip())


def the_unit_is_shut_in(copy):
    unit = copy.prefix / "lib/systemd/system/daruma.service"
    print(run("systemd-analyze", "security", "--offline=true", "--threshold=15", unit)
          .strip().splitlines()[-1])  # tenths: 1.5 at most


def main():
    claims = [claim for claim in list(globals().values())
              if callable(claim) and getattr(claim, "__code__", None)
              and claim.__code__.co_varnames[:1] == ("copy",)]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="daruma-install-"))
    failed = 0
    try:
        copy = Installed(folder)
        for claim in claims:
            try:
                claim(copy)
                print(f"ok {claim.__name__}")
            except Failure as failure:
                failed += 1
                print(f"FAIL {claim.__name__}\n{failure}")
    finally:
        shutil.rmtree(folder)
    print(f"{len(claims) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
