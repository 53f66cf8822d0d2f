#!/usr/bin/env python3
"""The house rules that a machine can check. Usage: tidy_test.py REPOSITORY. Prints each breach as path:line: rule, exits 1 on any.

Rules: files <= 500 lines, lines <= 100 columns, functions <= 70 lines; rooms include only what lies below them; the top level
holds nothing new; no two headers define types of one name; comments name rules and pages that are here; no leftovers (to-do marks, debugging output); no coroutine
patterns that GCC 12 miscompiles; no dropped results of a co_await; no sleeps in C++ tests; headers include what they use of what
the precompiled header would give them. `tidy_test.py --self-test` proves that each rule can fail."""
import os
import re
import subprocess
import sys

FILE_LINES_MAX, LINE_COLUMNS_MAX, FUNCTION_LINES_MAX = 500, 100, 70
TOP_LEVEL = {"CMakeLists.txt", "CMakePresets.json", "README.md", "server", "gateway", "placement", "include", "tests", "conf",
             "scripts"}
# What a folder may include beside the vocabulary, the placement and itself (not the folders inside it). From bottom to top.
ARROWS = {
    "include/penstock": (),
    "placement": (),
    "server/transport": (),
    "server/volume/disk": (),
    "server/volume/log": ("server/volume/disk",),
    "server/volume/rows": ("server/volume/disk", "server/volume/log"),
    "server/volume/acceptor": ("server/volume/disk", "server/volume/log", "server/volume/rows"),
    "server/volume/fragments": ("server/volume/disk", "server/volume/rows", "server/volume/acceptor"),
    "server/volume": ("server/volume/disk", "server/volume/log", "server/volume/rows", "server/volume/acceptor", "server/volume/fragments"),
    "server/membership": (),
    "server/map_source": ("server/membership",),
    "server/records": (),
    "server/proposer": ("server/membership",),
    "server/blobs": ("server/membership", "server/records"),
    "server/index": ("server/membership", "server/records", "server/proposer"),
    "server/objects": ("server/membership", "server/records", "server/proposer", "server/blobs", "server/index"),
    "server/background/removal": ("server/membership", "server/records", "server/proposer", "server/blobs", "server/index",
                                  "server/objects"),
    "server/background/replacement": ("server/membership", "server/records", "server/proposer", "server/blobs"),
    "server/background": ("server/background/removal", "server/background/replacement"),
    "server/node": ("server/membership", "server/objects", "server/background", "server/background/replacement",
                    "server/volume", "server/volume/disk"),
    "gateway/s3": ("server/records", "server/index", "server/objects"),
    "gateway/http": ("gateway/s3",),
    "gateway/auth": ("gateway/s3",),
    "gateway/body": ("gateway/s3", "gateway/http", "gateway/auth", "server/records"),
    "gateway/operations": ("gateway/s3", "gateway/http", "gateway/auth", "gateway/body", "server/blobs", "server/index",
                           "server/objects"),
    "gateway": ("gateway/s3", "gateway/http", "gateway/auth", "gateway/body", "gateway/operations", "server/objects",
                "server/background/removal"),  # the settings of removal, which the configuration reads
    "gateway/bench": ("gateway", "gateway/auth", "gateway/s3"),
    "gateway/process": ("gateway", "gateway/http", "server/membership", "server/map_source", "server/objects",
                        "server/background", "server/transport", "server/node"),
}
NO_PLACEMENT = ("include/penstock", "server/transport", "server/volume")  # these know only the vocabulary
SEES_ALL = {"gateway/main.cc"}
PROTOCOL_PAGE = "server/proposer/README.md"
OTHER_PAGE = re.compile(r'\b(metadata|architecture|reliability|security) "')
LEFTOVER = re.compile(r"(\.(orig|rej|bak|swp)|~)$")
MARKS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
OUTPUT = re.compile(r"\b(std::cout|printf)\s*[(<]")
OUTPUT_ALLOWED = {"gateway/main.cc", "gateway/process/cluster_commands.cc", "include/penstock/result.cc"}
SLEEP = re.compile(r"\b(sleep_for|usleep|nanosleep)\b")
AWAIT_CAPTURE = re.compile(r"co_await\b[^;]*\[[&=\w][^\]]*\]\s*(\(|mutable|\{)")
PRECOMPILED = "include/penstock/precompiled.h"
# What stands for each header that is compiled once for all: who uses it without its include compiles only by that favour.
PRECOMPILED_WORDS = {
    "boost/asio/awaitable.hpp": r"asio::awaitable\b", "boost/asio/co_spawn.hpp": r"asio::co_spawn\b",
    "boost/asio/io_context.hpp": r"asio::io_context\b", "boost/asio/post.hpp": r"asio::post\b",
    "boost/asio/use_awaitable.hpp": r"asio::use_awaitable\b", "boost/system/result.hpp": r"boost::system::result\b",
    "algorithm": r"std::(?:max|min|clamp|sort|stable_sort|find|find_if|any_of|all_of|none_of|copy|fill|count|count_if|lower_bound|"
                 r"upper_bound|equal|reverse|remove_if|max_element|min_element)\s*[(<]",
    "array": r"std::(?:array|to_array)\b", "chrono": r"std::chrono\b", "cstdint": r"\bu?int(?:8|16|32|64|ptr)_t\b", "deque": r"std::deque\b",
    "functional": r"std::(?:function|less|greater|hash|reference_wrapper|ref)\b", "map": r"std::(?:multi)?map\b",
    "memory": r"std::(?:unique_ptr|shared_ptr|weak_ptr|make_unique|make_shared|enable_shared_from_this)\b",
    "mutex": r"std::(?:mutex|recursive_mutex|lock_guard|unique_lock|scoped_lock|call_once)\b", "optional": r"std::(?:optional|nullopt)\b",
    "set": r"std::(?:multi)?set\b", "span": r"std::span\b", "string": r"std::(?:string|to_string|getline)\b",
    "string_view": r"std::string_view\b", "unordered_map": r"std::unordered_map\b",
    "utility": r"std::(?:move|forward|exchange|swap|pair|make_pair)\b", "variant": r"std::(?:variant|visit|get_if|holds_alternative)\b",
    "vector": r"std::vector\b",
}
AWAIT_BRACES = re.compile(r"co_await\s+[\w:.>\-]+\(\s*(?:[^;{}]*[,(]\s*)?(?:[A-Za-z][\w:]*)?\{[^;]*;")
BARE_ASSERT = re.compile(r"(?<![\w_])assert\(")
THROWING_PARSE = re.compile(r"\bsto(?:i|l|ll|ul|ull|d|f)\(")
# Of at most nine digits, looked at before.
THROWING_PARSE_ALLOWED = {"gateway/operations/object_attributes.cc", "server/node/new_volume.cc", "server/node/store_directories.cc"}
# GCC 12.2 destroys the temporaries of such an operand twice.
AWAIT_CHOSEN = re.compile(r"\?[^;{}]*?\bco_await\b")
AWAIT_DROPPED = re.compile(r"^\s*co_await\s+(?P<call>[\w:.>\-]+)\s*\(")
# Awaitables of void: nothing to drop.
AWAIT_VOID = re.compile(r"(sleep_until|announce_once|async_accept|async_connect|keep|wait_for_room|linger|drain|discard|wait|async_wait|run|stop|handle|join|serve|yield|deliver|settle_down|finish|wait_all|wait_for_all|remove_all|learn|learn_map|ask_source|ask_volumes|look_for_missing|bring_up_to_date|ask_peers|tell_peers|admit_member|step|keep_running|make|watch)$")


def tracked(root):
    done = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True)
    return [f for f in done.stdout.split("\n") if f and os.path.exists(os.path.join(root, f))]


def room_of(path):
    return max((room for room in ARROWS if path.startswith(room + "/")), key=len, default=None)


def may_include(room, included):
    low = "penstock" if room.startswith(NO_PLACEMENT) else "placement"
    folder = os.path.dirname(included)
    return folder in {"penstock", low, room, *ARROWS[room]}


def strip(line):
    """The line without its literals and // comment, so that rules look at code only."""
    line = re.sub(r"'(\\.|[^'\\])'", "' '", line)
    line = re.sub(r'"(\\.|[^"\\])*"', '""', line)
    return re.sub(r"//.*", "", line)


def functions(lines):
    """(first line, length) of each function body: a `{` that ends a line at namespace or class level, up to its `}`."""
    start, indent, begun = None, "", 1
    for number, line in enumerate(lines, 1):
        if start is None:
            match = re.match(r"^\s*\S.*[)}]\s*(const|noexcept|override|final|mutable|->\s*[\w:<>]+|\s)*\{\s*$", line)
            head = lines[begun - 1]  # the signature's first line
            if match and re.match(r"^\s{0,4}\S", head) and not re.match(
                    r"^\s*(if|for|while|switch|else|namespace|class|struct|enum|do|catch|try)\b|^\s*\}", head):
                start, indent = begun, re.match(r"\s*", head).group(0)
            if re.search(r"[;{}:]\s*$|^\s*$|^\s*#", strip(line)):
                begun = number + 1
        elif re.match(rf"^{indent}\}}", line):
            yield start, number - start + 1
            start, begun = None, number + 1


def text_line(match):
    return match.string.count("\n", 0, match.end()) + 1


def check_cpp(path, text, report):
    lines = text.split("\n")
    room = room_of(path)
    stripped = "\n".join(strip(line) for line in lines)
    for match in AWAIT_CHOSEN.finditer(stripped):
        report(path, text_line(match), "co_await inside an operand of ?:")
    for match in AWAIT_BRACES.finditer(stripped):
        report(path, text_line(match), "braced temporary inside a co_await expression")
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_COLUMNS_MAX:
            report(path, number, f"line of {len(line)} columns")
        include = re.match(r'\s*#\s*include\s*["<]((?:server|gateway|placement|penstock|tests)/[^">]+)[">]', line)
        if include and room and path not in SEES_ALL and not may_include(room, include.group(1)):
            report(path, number, f"{room} must not include {include.group(1)}")
        code = strip(line)
        if MARKS.search(line):
            report(path, number, "to-do mark")
        if room and path not in OUTPUT_ALLOWED and OUTPUT.search(code) and "snprintf" not in code and "fprintf" not in code:
            report(path, number, "output that is no log event")
        if path.startswith("tests/") and SLEEP.search(code):
            report(path, number, "a sleep in place of a condition")
        if room and room != "include/penstock" and BARE_ASSERT.search(code):
            report(path, number, "assert() is gone with NDEBUG: PENSTOCK_ASSERT stays")
        if room and THROWING_PARSE.search(code) and path not in THROWING_PARSE_ALLOWED:
            report(path, number, "std::stoul throws: std::from_chars does not")
        if AWAIT_CAPTURE.search(code):
            report(path, number, "capturing lambda inside a co_await expression")
        dropped = AWAIT_DROPPED.match(code)
        goes_on = number > 1 and re.search(r"[=,(]$", strip(lines[number - 2]).rstrip())  # of the line before
        if dropped and room and not goes_on and not AWAIT_VOID.search(dropped.group("call")):
            report(path, number, "result of co_await dropped")
    for start, length in functions(lines):
        if length > FUNCTION_LINES_MAX and room:
            report(path, start, f"function of {length} lines")


def check_includes(path, text, report):
    """A header includes what it uses of the precompiled header's."""
    included = set(re.findall(r"^#include <([^>]+)>", text, re.M))
    if path == PRECOMPILED:
        for header in included ^ PRECOMPILED_WORDS.keys():
            report(path, 0, f"{header} is in only one of this file and PRECOMPILED_WORDS")
    elif path.endswith(".h"):
        code = "\n".join(strip(line) for line in text.split("\n"))
        for header in sorted(PRECOMPILED_WORDS.keys() - included):
            if match := re.search(PRECOMPILED_WORDS[header], code):
                report(path, text_line(match), f"{match.group(0)} without <{header}>")


DEFINED = re.compile(r"^(?:struct|class)\s+(?:\[\[\w+\]\]\s+)?(\w+)\b(?!.*;\s*(?://.*)?$)")


def names_defined(path, text):
    """Types that a header defines at the level of a namespace, as NAMESPACE::NAME."""
    space = "penstock"
    for line in text.split("\n"):
        if opened := re.match(r"^namespace ([\w:]+) \{", line):
            space = opened.group(1)
        elif line.startswith("}  // namespace"):
            space = "penstock"
        elif (match := DEFINED.match(line)) and space != "std":
            yield f"{space}::{match.group(1)}"


def check_names(path, text, defined, report):
    """Two types of one name make one program that is neither: the linker keeps one of each of their functions, without a word."""
    for name in names_defined(path, text):
        if defined.setdefault(name, path) != path:
            report(path, 0, f"{name} is defined in {defined[name]}, too")


def protocol_rules(root):
    """The rules that the protocol's page defines: "## R5 Accept" is R5."""
    path = os.path.join(root, PROTOCOL_PAGE)
    with open(path, encoding="utf-8") as f:
        return set(re.findall(r"^## (R\d+) ", f.read(), re.M))


def check_references(path, text, rules, exists, report):
    """Rules and pages that a comment names are there to be read."""
    for number, line in enumerate(text.split("\n"), 1):
        comment = re.search(r"//(.*)", line)
        if not comment:
            continue
        for rule in re.findall(r"\b(R\d+)\b", comment.group(1)):
            if rule not in rules:
                report(path, number, f"{rule} is not in {PROTOCOL_PAGE}")
        for page in re.findall(r"[\w./-]+\.md\b", comment.group(1)):
            if not exists(page):
                report(path, number, f"{page} is no page of this repository")
        if OTHER_PAGE.search(comment.group(1)):
            report(path, number, "names a page outside of this repository")


def check(root, files):
    found, rules, defined = [], protocol_rules(root), {}
    report = lambda path, number, rule: found.append(f"{path}:{number}: {rule}")
    for path in files:
        top = path.split("/")[0]
        if top not in TOP_LEVEL and not top.startswith("."):
            report(path, 0, "the top level holds nothing new")
        if LEFTOVER.search(path):
            report(path, 0, "a merge or an editor left it")
        if not re.search(r"\.(h|cc|py|c)$", path) and not path.startswith("scripts/"):
            continue
        with open(os.path.join(root, path), encoding="utf-8") as f:
            text = f.read()
        count = text.count("\n")
        if count > FILE_LINES_MAX:
            report(path, count, f"file of {count} lines")
        if re.search(r"\.(h|cc)$", path):
            check_cpp(path, text, report)
            check_includes(path, text, report)
            if path.endswith(".h") and not path.startswith("tests/"):
                check_names(path, text, defined, report)
            check_references(path, text, rules, lambda page: os.path.exists(os.path.join(root, page)), report)
    return found


def self_test():
    cases = {
        "placement/a.cc": ['#include "gateway/x.h"', "# include <server/node/x.h>", "x" * 101, "// TODO: later", 'std::cout << "x";'],
        "server/proposer/b.cc": ["  co_await f([x](int) { return x; });", "  co_await g.call(Name{1});", "  co_await g.call(x);",
                                "  auto x = co_await g.call(\n      Name{1});", "  auto x = co_await g.call(a, {1, 2});",
                                "  x = c ? co_await a() : b;", "  auto x = c ? f(1)\n    : co_await b();"],
        "tests/unit/c.cc": ["  std::this_thread::sleep_for(1ms);"],
        "gateway/d.cc": ["void f() {\n" + "  x();\n" * 80 + "}", "void f(int a,\n       int b) {\n" + "  x();\n" * 80 + "}",
                         "S::S()\n    : a_(1),\n      b_{2} {\n" + "  x();\n" * 80 + "}", "  assert(x);", "  auto n = std::stoul(text);"],
    }
    for path, snippets in cases.items():
        for snippet in snippets:
            found = []
            check_cpp(path, snippet, lambda p, n, r: found.append(r))
            if not found:
                sys.exit(f"self-test: no rule caught {snippet[:60]!r} in {path}")
    for sound in ["  const bool c = co_await a();", "  if (c != '?') CO_TRY(x, co_await a());", "  f(c ? 1 : 2);\n  co_await a();"]:
        check_cpp("tests/sim/e.cc", sound, lambda p, n, r: sys.exit(f"self-test: {r!r} in {sound!r}"))
    for line in ["// (R99)", "// see gone/README.md", '// (metadata "LIST")']:
        found = []
        check_references("gateway/x.h", line, {"R1"}, lambda page: False, lambda p, n, r: found.append(r))
        if not found:
            sys.exit(f"self-test: no rule caught {line!r}")
    if not LEFTOVER.search("tests/x.py.orig") or LEFTOVER.search("tests/original.py"):
        sys.exit("self-test: leftovers of a merge are not told")
    found, defined = [], {}
    for path in ("server/a.h", "gateway/b.h"):
        check_names(path, "namespace penstock {\nstruct Declared;\nclass Twice final : public Other {\n};\n", defined, lambda p, n, r: found.append(r))
    if len(found) != 1:
        sys.exit(f"self-test: a name defined twice gave {found}")
    found = []
    check_includes("gateway/x.h", "#include <map>\nstd::map<int, std::vector<int>> x;  // std::set", lambda p, n, r: found.append((n, r)))
    if found != [(2, "std::vector without <vector>")]:
        sys.exit(f"self-test: the includes of a header gave {found}")


def main():
    self_test()
    if sys.argv[1] == "--self-test":
        return
    found = check(sys.argv[1], tracked(sys.argv[1]))
    print("\n".join(found) or "tidy")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
