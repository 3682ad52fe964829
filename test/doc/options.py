#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: test/doc/options.py PROGRAM -- manual pages name every command and every option, and no others."""
import os
import re
import subprocess
import sys

from tap import report

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = {"node": "farside-node.1", "load": "farside-load.1", "dump": "farside-load.1", "bench": "farside-bench.1",
         "sim": "farside-sim.1"}
TOP = {"--size"}  # of another command, in farside.1's overview and example
COMMON = {"--help", "--usage", "--pool", "--json"}


def page_options(name):
    with open(os.path.join(ROOT, "doc/man", name), encoding="utf-8") as f:
        return {"--" + x for x in re.findall(r"Fl -([a-z][a-z-]*)", f.read())}


def headings_with_macros(page):
    """Headings in which a word is a macro's name: it would be taken for the macro. Behind \\& it is not."""
    with open(os.path.join(ROOT, "doc/man", page), encoding="utf-8") as f:
        return {x for x in re.findall(r"^\.S[sh] .*", f.read(), re.M) if re.search(r"(?<!\S)[A-Z][a-z](?!\S)", x)}


def help_of(program, *args):
    return subprocess.run([program, *args], capture_output=True, text=True, check=True).stdout


def main():
    program = sys.argv[1]
    commands = re.findall(r"^  ([a-z]+) +\S", help_of(program, "--help"), re.M)
    with open(os.path.join(ROOT, "doc/man/farside.1"), encoding="utf-8") as f:
        top = f.read()
    cases, known = [("test_page_farside_names_every_command", {c for c in commands if f"Cm {c}" not in top})], {}
    for c in commands:
        if c == "help":
            continue
        text = help_of(program, c, "--help")
        options = set(re.findall(r"^ +(?:-\w, )?(?:--[a-z-]+(?:=\S+)?, )?(--[a-z][a-z-]*)", text, re.M))
        options.update(re.findall(r"^ +(?:-\w, )?(--[a-z][a-z-]*)", text, re.M))
        known.setdefault(PAGES.get(c, "farside.1"), set()).update(options)
    for page, options in known.items():
        written = page_options(page)
        stem = re.sub(r"\W", "_", page)
        cases.append((f"test_page_{stem}_names_every_option", options - COMMON - written))
        cases.append((f"test_page_{stem}_names_options_that_exist", written - options - COMMON - (TOP if page == "farside.1" else set())))
    pages = sorted(x for x in os.listdir(os.path.join(ROOT, "doc/man")) if x[-1].isdigit())
    cases.append(("test_page_headings_are_words", {f"{p}: {x}" for p in pages for x in headings_with_macros(p)}))
    return report(cases)


if __name__ == "__main__":
    sys.exit(main())
