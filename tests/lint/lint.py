"""Rules of the house, each a function that yields complaints. No complaint: the rule passed."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCES = (".c", ".h", ".cu", ".comp", ".glsl", ".metal", ".m")


def tracked():
    trust = dict(os.environ, GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="safe.directory", GIT_CONFIG_VALUE_0="*")  # a clone of another user
    out = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True, env=trust).stdout.decode()
    return [f for f in out.split("\0") if f and os.path.exists(f)]


FILES = tracked()


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def code_files(prefix, endings=(".c", ".h")):
    return [f for f in FILES if f.startswith(prefix) and f.endswith(endings)]


def strip_comments(text):
    """Comments and string contents become blanks; line numbers stay."""
    def blank(m):
        return re.sub(r"[^\n]", " ", m.group(0))
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def check_layers():
    layer, allowed = {}, set()
    for line in read("tests/lint/layers.txt").splitlines():
        words = line.split("#")[0].split()
        if len(words) == 3 and words[0] == "allow":
            allowed.add((words[1], words[2]))
        elif len(words) == 2:
            layer[words[0]] = int(words[1])
    for path in code_files("src/") + code_files("cli/"):
        own = path.split("/")[1] if path.startswith("src/") else "cli"
        if own not in layer:
            yield f"{path}: folder '{own}' has no layer in tests/lint/layers.txt"
            continue
        for n, line in enumerate(read(path).splitlines(), 1):
            m = re.match(r'\s*#\s*include\s+"([a-z_0-9]+)/', line)
            if not m or m.group(1) == own or m.group(1) not in layer:
                continue
            other = m.group(1)
            if layer[other] >= layer[own] and (own, other) not in allowed:
                yield f"{path}:{n}: {own} (layer {layer[own]}) includes {other} (layer {layer[other]})"


FORBIDDEN = {
    r"\b(abort|exit|_exit|quick_exit)\s*\(": "the library never ends the process",
    r"\bassert\s*\(": "errors are values; use _Static_assert for what the compiler can prove",
    r"(?<![.>])\b(printf|puts|putchar|perror)\s*\(": "the library never prints",
    r"\bfprintf\s*\(\s*std(out|err)": "the library never prints",
    r"\bgetenv\s*\(": "only cli/ reads the environment",
    r"(?<![_a-z>.])(malloc|calloc|realloc|free|strdup|strndup|aligned_alloc)\s*\(": "allocation goes through base/mem.h",
    r"\b(sprintf|strcpy|strcat|gets|atoi|atol|atof)\s*\(": "unbounded or unchecked",
}


def check_forbidden():
    for path in code_files("src/"):
        text = strip_comments(read(path))
        for pattern, why in FORBIDDEN.items():
            if path == "src/base/mem.c" and "base/mem.h" in why:
                continue
            for m in re.finditer(pattern, text):
                yield f"{path}:{text.count(chr(10), 0, m.start()) + 1}: {m.group(0).strip()}: {why}"


def check_lengths():
    for path in FILES:
        if path.endswith(SOURCES + (".py", ".sh")) and not path.startswith("tests/data/"):
            n = read(path).count("\n")
            if n > 1500:
                yield f"{path}: {n} lines; 600 is the aim, 1,500 the most"


def check_tree_size():
    size = sum(os.path.getsize(f) for f in FILES)
    if size > 45 * 1024 * 1024:
        yield f"the tracked tree is {size} bytes; 45 MiB is the most"


def check_names():
    """The project names no path of a machine and no package host."""
    words = ["/" + "work/", "/" + "root/", "deb" + "ian.org", "pypi" + ".org", "python" + "hosted.org"]
    for path in FILES:
        if path.startswith(("tests/data/", "models/")) or not path.endswith(
                SOURCES + (".py", ".sh", ".md", ".build", ".txt", ".json", "dev", "run")):
            continue
        text = read(path)
        for word in words:
            if word in text:
                yield f"{path}: names '{word}'"


def check_unfinished():
    pattern = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
    for path in FILES:
        if path.endswith(SOURCES) and not path.startswith("tests/data/"):
            for n, line in enumerate(read(path).splitlines(), 1):
                if pattern.search(line):
                    yield f"{path}:{n}: unfinished: {line.strip()[:80]}"


def check_headers():
    """Each public header compiles alone, as C11 and as C++."""
    jobs = [("cc", "c", "-std=c11")]
    if shutil.which("c++"):
        jobs.append(("c++", "c++", "-std=c++17"))
    for path in code_files("include/", (".h",)):
        for compiler, language, std in jobs:
            r = subprocess.run([compiler, "-x", language, std, "-Wall", "-fsyntax-only", "-Iinclude", path],
                               capture_output=True, text=True)
            if r.returncode:
                yield f"{path} as {language}: {r.stderr.splitlines()[0]}"


def check_guards():
    """No two headers have the same guard: the second one included would be empty."""
    owner = {}
    for path in code_files("", (".h",)):
        m = re.search(r"^#ifndef (\w+)\n#define \1$", read(path), flags=re.M)
        if m and owner.setdefault(m.group(1), path) != path:
            yield f"{path}: guard {m.group(1)} is that of {owner[m.group(1)]}"


def check_mutable_state():
    """No writable variables at file scope: what nm calls b or C in the library's objects."""
    library = "build/libridge.a"
    return _mutable_state(library) if os.path.exists(library) else None


def _mutable_state(library):
    out = subprocess.run(["nm", "-A", library], capture_output=True, text=True).stdout
    for line in out.splitlines():
        # Relocated const tables are in .data.rel.ro, which nm shows as d too: only .bss is surely writable.
        m = re.match(r".*?:([^:]+\.o):\S*\s+([bBC])\s+(\S+)$", line)
        if m:
            yield f"{m.group(1)}: '{m.group(3)}' is a writable variable at file scope"


def check_manual():
    """The man page comes from the option tables and renders without complaints."""
    return _manual() if os.path.exists("build/ridge") else None


def _manual():
    page = subprocess.run(["build/ridge", "help", "--man"], capture_output=True, text=True)
    if page.returncode or ".TH RIDGE 1" not in page.stdout:
        yield "ridge help --man does not print a man page"
        return
    overview = subprocess.run(["build/ridge", "help"], capture_output=True, text=True).stdout
    for name in re.findall(r"^  ([a-z-]+) ", overview, flags=re.M):
        help_text = subprocess.run(["build/ridge", name, "--help"], capture_output=True, text=True)
        if help_text.returncode:
            yield f"ridge {name} --help exits with {help_text.returncode}"
        for option in re.findall(r"(?<=[ ,])(--[a-z-]+)", help_text.stdout):
            if option.replace("-", "\\-") not in page.stdout and option != "--help":
                yield f"option {option} of {name} is not on the man page"
    if shutil.which("man"):
        with tempfile.NamedTemporaryFile("w", suffix=".1") as f:
            f.write(page.stdout)
            f.flush()
            r = subprocess.run(["man", "--warnings", "-l", f.name], capture_output=True, text=True,
                               env=dict(os.environ, MANWIDTH="100", LC_ALL="C.UTF-8"))
            if "warning" in r.stderr:
                yield f"man page: {r.stderr.splitlines()[0]}"


def check_format():
    """clang-format 14 (Debian 12's) decides; other versions differ in details, so they are not asked."""
    tool = shutil.which("clang-format")
    if not tool or " 14." not in subprocess.run([tool, "--version"], capture_output=True, text=True).stdout:
        return None
    return _format(tool)


def _format(tool):
    files = [f for p in ("src/", "cli/", "include/", "tests/", "examples/") for f in code_files(p)
             if not f.startswith("tests/data/")]
    r = subprocess.run([tool, "--dry-run", "-Werror"] + files, capture_output=True, text=True)
    for path in sorted(set(re.findall(r"^([^:\n]+):\d+:\d+: error", r.stderr, flags=re.M))):
        yield f"{path}: clang-format -i would change it"


RULES = [check_layers, check_forbidden, check_lengths, check_tree_size, check_names, check_unfinished, check_headers,
         check_guards, check_mutable_state, check_manual, check_format]


def main():
    passed = failed = skipped = 0
    for rule in RULES:
        name = rule.__name__.replace("check_", "").replace("_", " ")
        complaints = rule()
        if complaints is None:
            skipped += 1
            print(f"skipped  {name}")
            continue
        complaints = list(complaints)
        print(f"{'FAILED ' if complaints else 'ok     '}  {name}")
        for c in complaints[:40]:
            print(f"           {c}")
        if len(complaints) > 40:
            print(f"           … and {len(complaints) - 40} more")
        passed += not complaints
        failed += bool(complaints)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
