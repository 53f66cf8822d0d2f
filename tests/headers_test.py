#!/usr/bin/env python3
"""Whether each header compiles alone: it includes what it uses, and leans neither on the precompiled header nor on what its users
include before it. The flags are those of the build. Usage: headers_test.py BUILD_FOLDER [HEADER or FOLDER ...]; without a name all
headers of the repository, PENSTOCK_JOBS at a time. Prints what the compiler says of those that do not, exits 1 on any. With
--long before all else it does nothing and exits 77, unless PENSTOCK_TEST_MODE is long or nightly; tests/tidy_test.py looks at
includes in every mode."""
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WITH_VALUE = {"-o", "-MF", "-MT", "-MQ", "-include"}  # their value goes with them
SKIPPED = 77
NOT_FOR_HEADERS = {"-c", "-MD", "-MMD", "-Winvalid-pch", "-fpch-preprocess"}


def flags_of(command, source):
    """The compiler and its flags without what names this source, its object and the precompiled header."""
    words = shlex.split(command)
    # A launcher stands before the compiler.
    first = next(i for i, word in enumerate(words) if os.path.basename(word).startswith(("c++", "g++", "clang++")))
    kept, skip = [], False
    for word in words[first:]:
        if skip or word in WITH_VALUE:
            skip = not skip
        elif word not in NOT_FOR_HEADERS and word != source:
            kept.append(word)
    return kept


def flags_of_program(build):
    """(flags, folder) of the source that sees all rooms; it is compiled by itself in every build."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        entry = next(entry for entry in json.load(f) if os.path.relpath(entry["file"], ROOT) == "gateway/main.cc")
    return flags_of(entry["command"], entry["file"]), entry["directory"]


def check(header, flags, folder):
    """What the compiler says, or an empty text."""
    done = subprocess.run([*flags, "-fsyntax-only", "-x", "c++", "-"], cwd=folder, input=f'#include "{os.path.join(ROOT, header)}"\n',
                          capture_output=True, text=True)
    return done.stderr or ("" if done.returncode == 0 else f"the compiler ended with {done.returncode}\n")


def headers(names):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", *names], cwd=ROOT, capture_output=True, text=True)
    found = sorted(name for name in listed.stdout.split("\n") if name.endswith(".h") and os.path.exists(os.path.join(ROOT, name)))
    return found or sys.exit(f"no header found in {' '.join(names) or ROOT}")


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--long"]:
        if os.environ.get("PENSTOCK_TEST_MODE") not in ("long", "nightly"):
            print("skipped: ten minutes of CPU, for the long modes only")
            sys.exit(SKIPPED)
        del arguments[0]
    if not arguments:
        sys.exit(__doc__)
    flags, folder = flags_of_program(arguments[0])
    found = headers([os.path.relpath(os.path.abspath(name), ROOT) for name in arguments[1:]])
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("PENSTOCK_JOBS", os.cpu_count()))) as pool:
        for header, said in zip(found, pool.map(lambda name: check(name, flags, folder), found)):
            if said:
                failed += 1
                print(f"{header} does not compile alone:\n{said}", flush=True)
    print(f"{len(found)} headers, {failed} do not compile alone")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
