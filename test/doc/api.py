#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: test/doc/api.py -- every function of far.h and error.h has a man page, and pages name no other functions."""
import os
import re
import sys

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
    named, links, failed = set(), re.findall(r"'(far\w*)'", read("doc/meson.build")), 0
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
    for n, (name, wrong) in enumerate(cases, 1):
        print(f"{'not ok' if wrong else 'ok'} {n} {name}")
        for w in sorted(wrong):
            print(f"# {w}")
        failed += bool(wrong)
    print(f"1..{len(cases)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
