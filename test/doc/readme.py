#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: test/doc/readme.py PROGRAM FILE -- runs the examples of a document as they stand there.

The ```console blocks are one session: "$ " commands run in one shell, in a scratch folder that stands in for /tmp; what
they print must be what follows. "..." alone stands for any lines, at a line's end for the rest of the line. A ```c
block with a main() is compiled against the library beside PROGRAM and run with a fresh node's pool: the session may have
stopped its own.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from tap import Cases

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MARK = "--end-of-command--"


def blocks(text, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.M | re.S)


def session_steps(block):
    """[(command, expected output)]"""
    steps = []
    for line in block.splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        else:
            steps[-1][1].append(line)
    return steps


def matches(want, got):
    pattern = ""
    for line in want:
        if line == "...":
            pattern += r"(.*\n)*?"
        else:
            pattern += re.escape(line[:-3]) + r".*\n" if line.endswith("...") else re.escape(line) + r"\n"
    return re.fullmatch(pattern, "".join(x + "\n" for x in got)) is not None


def run_session(steps, folder, env):
    """Returns the output lines of each step. Nodes that the session starts run on until their group is ended."""
    script = "set -m\n"
    for command, _ in steps:
        command = command.replace("/tmp/", folder + "/")
        if command.endswith("&"):
            uri = re.search(r"shm:(\S+)", command)
            output = re.search(r"> (\S+)", command)
            command = command[:-1] + ("" if output else ">/dev/null ") + "2>&1 </dev/null &\n"
            if uri:  # the node is up when its socket is there
                command += f"for i in $(seq 100); do [ -S {uri.group(1)} ] && break; sleep 0.05; done\n"
            if output:  # and has said so
                command += f"for i in $(seq 100); do [ -s {output.group(1)} ] && break; sleep 0.05; done"
        if command.startswith("kill "):  # what the shell says of jobs that end belongs here, not to a later command
            command += "\nwait\ntrue"
        script += command + f"\necho {MARK} $?\n"
    run = subprocess.run(["bash", "-c", script], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, timeout=60)
    return [x.strip("\n").split("\n") if x.strip("\n") else [] for x in re.split(rf"{MARK} \d+\n", run.stdout)]


def check_session(cases, block, folder, env):
    steps = session_steps(block)
    outputs = run_session(steps, folder, env)
    for i, (command, want) in enumerate(steps):
        got = [x.replace(folder + "/", "/tmp/") for x in (outputs[i] if i < len(outputs) else ["(not reached)"])]
        name = re.sub(r"[^a-z0-9]+", "_", command.lower()).strip("_")[:40]
        cases.case(f"test_doc_session_{i + 1}_{name}", matches(want, got),
                   ["$ " + command, "wanted:", *want, "got:", *got])


def check_program(cases, block, folder, library, env, uri):
    path = os.path.join(folder, "example")
    with open(path + ".c", "w", encoding="utf-8") as f:
        f.write(block)
    for language, argv in {"c": ["cc", "-std=c11"], "cpp": ["c++", "-std=c++17", "-x", "c++"]}.items():
        build = subprocess.run([*argv, "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include", path + ".c", "-o", path,
                                f"-L{library}", "-lfarside", f"-Wl,-rpath,{library}"], capture_output=True, text=True)
        cases.case(f"test_doc_program_compiles_as_{language}", build.returncode == 0, build.stderr.splitlines())
        if build.returncode == 0:
            run = subprocess.run([path, uri], env=env, capture_output=True, text=True, timeout=60)
            cases.case(f"test_doc_program_runs_as_{language}", run.returncode == 0 and run.stdout != "",
                       (run.stdout + run.stderr).splitlines())


def start_node(folder, env):
    """Returns the URI of a node that serves already; end_nodes() ends it."""
    run_session([("farside node shm:/tmp/program --size 64m &", [])], folder, env)
    return f"shm:{folder}/program"


def end_nodes(folder):
    """Ends what still has the scratch folder on its command line: the session's own nodes."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if any(folder.encode() in w for w in words) and int(pid) != os.getpid():
            os.kill(int(pid), signal.SIGTERM)


def main():
    program, page = (os.path.abspath(x) for x in sys.argv[1:3])
    with open(page, encoding="utf-8") as f:
        text = f.read()
    cases = Cases()
    folder = tempfile.mkdtemp(prefix="far-doc-")
    env = {**os.environ, "PATH": os.path.dirname(program) + ":" + os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    env.pop("FARSIDE_POOL", None)
    try:
        check_session(cases, "".join(blocks(text, "console")), folder, env)
        for block in blocks(text, "c"):
            if "main(" not in block:
                continue
            if env.get("FAR_CHECK") in ("asan", "tsan"):
                cases.skip("test_doc_program", "links a library without a sanitizer only")
            else:
                check_program(cases, block, folder, os.path.dirname(program), env, start_node(folder, env))
    finally:
        end_nodes(folder)
        shutil.rmtree(folder, ignore_errors=True)
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
