# SPDX-License-Identifier: Apache-2.0
"""tap.py -- cases of the document tests, printed as test.h does."""


class Cases:
    def __init__(self):
        self.n = self.failed = 0

    def case(self, name, ok, notes=()):
        self.n += 1
        self.failed += not ok
        print(f"{'ok' if ok else 'not ok'} {self.n} {name}")
        if not ok:
            print("\n".join("# " + x for x in notes))

    def skip(self, name, reason):
        self.n += 1
        print(f"ok {self.n} {name} # SKIP {reason}")

    def end(self):
        """Prints the plan and returns the exit status."""
        print(f"1..{self.n}")
        return 1 if self.failed or self.n == 0 else 0


def report(cases):
    """Prints (name, what is wrong) as cases that pass where nothing is, and returns the exit status."""
    tap = Cases()
    for name, wrong in cases:
        tap.case(name, not wrong, sorted(wrong))
    return tap.end()
