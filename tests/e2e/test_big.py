"""A file of 300 MB: what does not run the model does not read the weights."""
import os
import subprocess
import time
import unittest

import e2e
from e2e import RIDGE


@unittest.skipIf(e2e.SANITIZED, "sanitizers change what is resident")
class Big(e2e.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.big = cls.path("big.gguf")
        subprocess.run([RIDGE, "synth", cls.big, "--like", "qwen3-4b", "--layers", "1", "--type", "Q4_K_M", "-q"], check=True,
                       stdout=subprocess.DEVNULL)

    def peak_bytes(self, *args, code=0):
        """Peak resident memory of a run."""
        p = subprocess.Popen([RIDGE, *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=self.folder)
        p.stderr.read()
        p.stderr.close()
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(p.returncode, code)
        return usage.ru_maxrss * 1024

    def test_looking_at_a_file_does_not_read_it(self):
        self.assertGreater(os.path.getsize(self.big), 250e6)
        idle = self.peak_bytes("--version")
        for args, code in ((["inspect", self.big], 0), (["inspect", self.big, "--tensors", "--json"], 0),
                           (["tokenize", self.big, "a"], 3), (["run", self.big, "-p", "a"], 3),
                           (["quantize", self.big, "out", "Q8_0", "--dry-run", "--allow-requantise"], 0)):
            with self.subTest(args):
                self.assertLess(self.peak_bytes(*args, code=code) - idle, 12e6)

    def test_map_and_parse_take_no_time(self):
        """The best of five, against noise: far below the second that reading 300 MB could take."""
        def seconds():
            start = time.monotonic()
            self.ridge("inspect", self.big)
            return time.monotonic() - start
        self.assertLess(min(seconds() for _ in range(5)), 0.5)

    def test_verify_and_quantize_keep_memory_bounded(self):
        """Both read all of it, piece by piece."""
        self.assertLess(self.peak_bytes("inspect", self.big, "--verify"), 150e6)
        self.assertLess(self.peak_bytes("quantize", self.big, "out.gguf", "Q8_0", "--allow-requantise"), 250e6)

    def test_a_synthetic_model_has_no_tokenizer_and_says_so(self):
        r = self.ridge("run", self.big, "-p", "Once", code=e2e.REJECTED)
        self.assertIn("no tokenizer", r.err)
        self.assertIn("ridge logits --tokens", r.err)
        shape = self.ridge("logits", self.big, "--tokens", "1", "-o", "l.npy", "--json").json["shape"]
        self.assertEqual(shape[0], 1)


if __name__ == "__main__":
    e2e.main()
