"""A file of 300 MB: what does not run the model does not read the weights."""
import os
import subprocess
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

    def test_verify_and_quantize_keep_memory_bounded(self):
        """Both read all of it, piece by piece."""
        self.assertLess(self.peak_bytes("inspect", self.big, "--verify"), 150e6)
        self.assertLess(self.peak_bytes("quantize", self.big, "out.gguf", "Q8_0", "--allow-requantise"), 250e6)

    def test_run_starts_without_reading_the_file(self):
        """What is resident before the first token, and how long that took; then the weights are read."""
        runs = [self.ridge("run", self.big, "--tokens", "1,2", "-n", "2", "--json").json for _ in range(3)]
        for r in runs:
            self.assertLess(r["load_peak_rss_bytes"], 0.2 * os.path.getsize(self.big))  # scratch and a few pages
            self.assertGreater(r["peak_rss_bytes"], 0.5 * os.path.getsize(self.big))
        self.assertLess(min(r["map_seconds"] for r in runs), 1)  # a machine may pause once

    def test_a_model_without_tokenizer_runs_by_token_ids(self):
        args = ["run", self.big, "--tokens", "5,6 7", "-n", "3", "--temp", "0"]
        r = self.ridge(*args, "--json").json
        self.assertEqual((r["prompt_tokens"], len(r["tokens"]), r["finish_reason"], r["text"]), ([5, 6, 7], 3, "length", None))
        ids = " ".join(map(str, [5, 6, 7] + r["tokens"]))
        run = self.ridge(*args)
        self.assertEqual(run.out, ids + "\n")
        self.assertIn("map + parse", run.err)
        p = subprocess.run([os.environ["RIDGE_EXAMPLE"], self.big, "5,6,7", "3"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual((p.returncode, p.stdout.decode(), p.stderr), (0, "5,6,7" + ids[5:] + "\n", b""))
        for wrong in ("5,", "a", "", ",5", "5 6"):
            p = subprocess.run([os.environ["RIDGE_EXAMPLE"], self.big, wrong], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual((p.returncode, p.stdout), (2, b""))
            self.assertIn(b"token ids", p.stderr)
        p = subprocess.run([os.environ["RIDGE_EXAMPLE"], self.big, "99999999999"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(p.returncode, 1)
        self.assertIn(b"outside the vocabulary", p.stderr)

    def test_a_synthetic_model_has_no_tokenizer_and_says_so(self):
        r = self.ridge("run", self.big, "-p", "Once", code=e2e.REJECTED)
        self.assertIn("no tokenizer", r.err)
        self.assertIn("--tokens", r.err)
        shape = self.ridge("logits", self.big, "--tokens", "1", "-o", "l.npy", "--json").json["shape"]
        self.assertEqual(shape[0], 1)


if __name__ == "__main__":
    e2e.main()
