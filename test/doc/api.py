#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: test/doc/api.py -- every function of far.h and error.h has a man page, and pages name no other functions."""
import os
import re
import sys

from tap import report

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def declared(header):
    text = re.sub(r"/\*.*?\*/", "", read(f"include/farside/{header}"), flags=re.S)
    return set(re.findall(r"\b(far_\w+)\([^;{]*\);", text, re.S))


def main():
    headers = [h for h in os.listdir(os.path.join(ROOT, "include/farside"))]
    helpers = {"far_report_fn", "far_bytes", "far_str"}  # a type, and two inline functions
    everything = set().union(*(declared(h) for h in headers)) | helpers
    named, links = set(), re.findall(r"'(far\w*)'", read("doc/meson.build"))
    cases = []
    for page in sorted(os.listdir(os.path.join(ROOT, "doc/man"))):
        text = read(f"doc/man/{page}")
        names = re.findall(r"^\.Nm (far_\w+)", text.split(".Sh SYNOPSIS")[0], re.M)
        named.update(names)
        used = set(re.findall(r"^\.F[no] (far_\w+)", text, re.M))
        cases.append((f"test_page_{page.replace('.', '_')}_names_functions_that_exist",
                      (used | set(names)) - everything))
        cases.append((f"test_page_{page.replace('.', '_')}_is_found_by_its_names",
                      {n for n in names if n not in links and n != page.rsplit(".", 1)[0]}))
    for header in ("far.h", "error.h"):
        cases.append((f"test_page_exists_for_every_function_of_{header.replace('.', '_')}",
                      {f for f in declared(header) if f not in named | helpers}))
    return report(cases)


if __name__ == "__main__":
    sys.exit(main())
