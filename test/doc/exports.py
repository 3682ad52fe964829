#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: test/doc/exports.py LIBRARY -- the shared library exports what the installed headers declare, and nothing else."""
import os
import re
import subprocess
import sys

from tap import Cases

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEADERS = os.path.join(ROOT, "include/farside")


def declared(header):
    """Functions and objects; inline functions and types have no symbol."""
    with open(os.path.join(HEADERS, header), encoding="utf-8") as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    text = re.sub(r"^static inline\b.*?^\}", "", text, flags=re.S | re.M)
    functions = re.findall(r"^(?!typedef\b)\w[\w ]*[ *](\w+)\(.*?\);", text, re.S | re.M)
    return set(functions) | set(re.findall(r"^extern [^\"(;]*\b(\w+);", text, re.M))


def exported(library):
    out = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    # Names with two underscores are the compiler's and its sanitizers'.
    return {line.split()[-1] for line in out.splitlines() if not line.split()[-1].startswith("__")}


def main():
    names = set().union(*(declared(h) for h in os.listdir(HEADERS)))
    symbols = exported(sys.argv[1])
    tap = Cases()
    tap.case("test_exports_every_declared_function", names and names <= symbols, sorted(names - symbols))
    tap.case("test_exports_nothing_else", symbols <= names, sorted(symbols - names))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
