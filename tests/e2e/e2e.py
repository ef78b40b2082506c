"""What the end-to-end tests share: running build/ridge as a user does, in a folder of its own, and what every run owes.

A run never ends by a signal, keeps results on stdout and messages on stderr, and leaves no temporary file behind; Ridge
checks that on each call, so a test states only what is particular to it. RIDGE names the program, the first argument of
a test program the source tree.
"""
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.realpath(os.environ.get("RIDGE_SOURCE", os.path.join(os.path.dirname(__file__), "..", "..")))
RIDGE = os.path.realpath(os.environ.get("RIDGE", os.path.join(SOURCE, "build", "ridge")))
TINY = os.path.join(SOURCE, "models", "ridge-tiny")
DATA = os.path.join(SOURCE, "tests", "data")
CALIBRATION = os.path.join(DATA, "text", "calib_pd_fiction.txt")
HANG = 1200  # seconds: ends what hangs; a busy machine may take long for anything
DONE, FAILED, USAGE, REJECTED, NEGATIVE = 0, 1, 2, 3, 4
# Sanitizers reserve terabytes of addresses and take several times as long.
SANITIZED = "ASAN_OPTIONS" in os.environ
# Graphics drivers leak, and are unloaded before the sanitizer could name them: under sanitizers there are none.
ENVIRONMENT = dict(os.environ, **({"VK_DRIVER_FILES": os.devnull, "VK_ICD_FILENAMES": os.devnull} if SANITIZED else {}))


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def json(self):
        return json.loads(self.out)


class Case(unittest.TestCase):
    """A fresh folder per test class, removed at its end; self.tiny is ridge-tiny as GGUF (bf16)."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="ridge-e2e-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.tiny = cls.path("tiny.gguf")
        subprocess.run([RIDGE, "convert", TINY, "-o", cls.tiny, "-q"], check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def write(cls, name, data):
        with open(cls.path(name), "wb") as f:
            f.write(data)
        return cls.path(name)

    def ridge(self, *args, code=DONE, stdin=b"", stdout=subprocess.PIPE, file_limit=None, address_limit=None):
        """Runs ridge; checks the exit code, that an error has one clear line, and that no temporary file stays."""
        before = self.listing()

        def limits():
            if file_limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
            if address_limit is not None:
                resource.setrlimit(resource.RLIMIT_AS, (address_limit, address_limit))

        p = subprocess.run([RIDGE, *args], input=stdin, stdout=stdout, stderr=subprocess.PIPE, timeout=HANG,
                           cwd=self.folder, preexec_fn=limits, env=ENVIRONMENT)
        out = p.stdout.decode("utf-8", "replace") if p.stdout else ""
        err = p.stderr.decode("utf-8", "replace")
        what = f"ridge {' '.join(args)[:300]}\nstdout: {out[:500]}\nstderr: {err[:2000]}"
        self.assertGreaterEqual(p.returncode, 0, f"ended by signal {-p.returncode}: {what}")
        self.assertEqual(p.returncode, code, what)
        self.assertNotIn("Sanitizer", err, what)
        if code in (FAILED, USAGE, REJECTED):
            self.assertRegex(err, r"(?m)^ridge\b.*: .{10,}$", f"no message: {what}")
            self.assertEqual(self.listing(), before, f"an error left or took files: {what}")
        for name in self.listing():
            self.assertNotIn("tmp", name, what)
            self.assertNotIn("unchecked", name, what)
        return Result(p.returncode, out, err)

    def listing(self):
        """Names and sizes below the folder."""
        found = {}
        for base, _, names in os.walk(self.folder):
            for name in names:
                path = os.path.join(base, name)
                found[os.path.relpath(path, self.folder)] = os.lstat(path).st_size
        return found


def read(path, mode="rb"):
    with open(path, mode) as f:
        return f.read()


def commands():
    """The commands that this program has, from `ridge help`."""
    text = subprocess.run([RIDGE, "help"], stdout=subprocess.PIPE, check=True).stdout.decode()
    return [line.split()[0] for line in text.splitlines() if line.startswith("  ")]


def main():
    unittest.main(verbosity=2)
