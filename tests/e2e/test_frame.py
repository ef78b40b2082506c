"""The frame of the command line: help, options, streams, exit codes, closed pipes and full disks."""
import json
import os
import subprocess
import unittest

import e2e
from e2e import DONE, FAILED, REJECTED, RIDGE, USAGE


class Frame(e2e.Case):
    def test_help_lists_every_command(self):
        text = self.ridge("help").out
        names = e2e.commands()
        for name in ("convert", "imatrix", "quantize", "inspect", "tokenize", "detokenize", "logits", "run", "embed",
                     "perplexity", "bench", "synth", "devices"):
            self.assertIn(name, names)
        self.assertEqual(self.ridge("--help").out, text)
        self.assertEqual(len(names), len(set(names)))

    def test_help_of_each_command(self):
        for name in e2e.commands():
            with self.subTest(name):
                text = self.ridge(name, "--help").out
                self.assertIn(f"Usage: ridge {name}", text)
                for option in ("--quiet", "--verbose"):
                    self.assertIn(option, text)
                self.assertEqual("--json" in text, name != "chat")  # which refuses it
                self.assertNotIn("  [OPTIONS]", text)
                for line in text.splitlines():
                    self.assertLessEqual(len(line), 104)
                self.assertIn("Exit codes", text)
                self.assertEqual(self.ridge("help", name).out, text)
                self.assertEqual(self.ridge(name, "-h").out, text)

    def test_options_that_mean_nothing_to_a_command(self):
        """They are not in its help, and are ignored with a warning rather than silently."""
        for name, option, takes in (("run", "--seed", True), ("run", "--gpu-layers", True), ("convert", "--threads", True),
                                    ("tokenize", "--seed", False), ("tokenize", "--threads", False),
                                    ("convert", "--device", False), ("quantize", "--device-memory", False)):
            with self.subTest(name, option=option):
                self.assertEqual(f" {option} " in self.ridge(name, "--help").out, takes)
        r = self.ridge("tokenize", self.tiny, "a", "--device", "vulkan", "--seed=3", "--json")
        self.assertEqual(len(r.json["warnings"]), 2)
        for option in ("--device", "--seed"):
            self.assertIn(f"warning: {option} means nothing to `ridge tokenize`", r.err)
        self.assertEqual(self.ridge("run", self.tiny, "-p", "a", "-n", "1", "--seed", "3", "--json").json["warnings"], [])

    def test_help_of_quantize_lists_every_type(self):
        known = self.ridge("quantize", self.tiny, "x", "Q99", code=USAGE).err.split("'Q99': ")[1].split(" are possible")[0]
        self.assertIn(f"TYPE is one of {known}.", " ".join(self.ridge("quantize", "--help").out.split()))

    def test_a_closed_stream_is_no_file(self):
        """Its number would be given to the next file: a model would be read as a conversation, or printed into."""
        before = e2e.read(self.tiny)
        for closed, args in ((0, ["chat", self.tiny, "-n", "2"]), (0, ["run", self.tiny, "-f", "-", "-n", "2"]),
                             (0, ["tokenize", self.tiny, "-f", "-"]), (1, ["run", self.tiny, "-p", "a", "-n", "2"]),
                             (1, ["inspect", self.tiny]), (1, ["help"])):
            with self.subTest(args[0], closed=closed):
                p = subprocess.run([RIDGE, *args], stdin=subprocess.DEVNULL if closed else None, stdout=None if closed == 1 else subprocess.PIPE,
                                   stderr=subprocess.PIPE, preexec_fn=lambda: os.close(closed), cwd=self.folder, env=e2e.ENVIRONMENT, timeout=e2e.HANG)
                self.assertEqual(p.returncode, FAILED, p.stderr)
                self.assertIn(b"standard input" if closed == 0 else b"standard output", p.stderr)
        self.assertEqual(e2e.read(self.tiny), before)
        p = subprocess.run([RIDGE, "tokenize", self.tiny, "hi", "--seed", "1"], stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2),
                           cwd=self.folder, env=e2e.ENVIRONMENT, timeout=e2e.HANG)
        self.assertEqual((p.returncode, p.stdout.count(b"\n")), (DONE, 3))

    def test_version(self):
        self.assertRegex(self.ridge("--version").out, r"^ridge \d+\.\d+\.\d+\n$")

    def test_man_page_names_every_command(self):
        page = self.ridge("help", "--man").out
        self.assertIn(".TH RIDGE 1", page)
        for name in e2e.commands():
            self.assertIn(f'.SS "ridge {name} ', page)

    def test_usage_errors(self):
        for args, words in (([], "Usage"), (["nonsense"], "nonsense"), (["help", "nonsense"], "nonsense"),
                            (["run"], "too few"), (["run", self.tiny, "extra"], "extra"),
                            (["--device", "cpu"], "a command comes first"), (["run", self.tiny, "--colour"], "--colour"), (["run", self.tiny, "-n"], "needs a value"),
                            (["run", self.tiny, "-n", "many"], "whole number"), (["run", self.tiny, "-n", "3x"], "3x"),
                            (["run", self.tiny, "-n", "99999999999999999999"], "99999999999999999999"),
                            (["run", self.tiny, "--temp", "nan"], "nan"), (["run", self.tiny, "--temp", "-1"], "range"),
                            (["run", self.tiny, "-t", "0"], "range"), (["run", self.tiny, "-c", "0"], "range"),
                            (["run", self.tiny, "--json=1"], "no value"), (["run", self.tiny, "--kv-type", "q9"], "q9"),
                            (["run", self.tiny, "--samplers", "bogus"], "bogus"),
                            (["run", self.tiny, "--logit-bias", "1"], "--logit-bias"),
                            (["run", self.tiny, "-p", "a", "-f", "b"], "-f"),
                            (["convert", e2e.TINY], "-o"), (["convert", e2e.TINY, "-o", "x", "--type", "Q99"], "Q99"),
                            (["quantize", self.tiny, "x"], "too few"), (["quantize", self.tiny, "x", "Q99"], "Q99"),
                            (["quantize", self.tiny, "x", "Q8_0", "--tensor-type", "a=b"], "a=b"),
                            (["imatrix", self.tiny, "-f", "x"], "-o"), (["perplexity", self.tiny], "-f"),
                            (["logits", self.tiny, "-o", "x"], "--tokens"),
                            (["logits", self.tiny, "--tokens", "1,x", "-o", "x"], "'x'"),
                            (["logits", self.tiny, "--tokens", "", "-o", "x"], "empty"),
                            (["logits", self.tiny, "--tokens", "1,-2", "-o", "x"], "-2"),
                            (["tokenize", self.tiny], "TEXT"), (["tokenize", self.tiny, "a", "-f", "b"], "either"),
                            (["detokenize", self.tiny, "99999999"], "99999999"), (["synth", "x"], "--like"),
                            (["synth", "x", "--like", "gpt-9"], "gpt-9"),
                            (["bench", self.tiny, "-p", "0", "-n", "0"], "nothing"),
                            (["embed", self.tiny, "a", "--pooling", "max"], "max"), (["devices", "extra"], "extra")):
            with self.subTest(args):
                r = self.ridge(*args, code=USAGE)
                self.assertIn(words, r.err)
                self.assertEqual(r.out, "")

    def test_values_after_an_equals_sign_and_negative_numbers(self):
        a = self.ridge("run", self.tiny, "-p", "One day", "--predict=4", "--temp=0", "--json").json
        b = self.ridge("run", "-n", "4", "--temp", "0", "--json", "-p", "One day", self.tiny).json
        self.assertEqual(a["tokens"], b["tokens"])
        self.assertEqual(len(a["tokens"]), 4)
        self.ridge("run", self.tiny, "-p", "a", "-n", "2", "--frequency-penalty", "-1", "--seed", "1")

    def test_words_after_two_dashes_are_arguments(self):
        self.assertEqual(self.ridge("tokenize", self.tiny, "--json", "--", "--help").json["ids"][0], 1)

    def test_results_on_stdout_and_messages_on_stderr(self):
        r = self.ridge("run", self.tiny, "-p", "Once", "-n", "3", "--temp", "0")
        self.assertTrue(r.out.startswith("Once"))
        self.assertIn("map + parse", r.err)
        self.assertNotIn("\r", r.err, "a progress bar although stderr is no terminal")
        quiet = self.ridge("run", self.tiny, "-p", "Once", "-n", "3", "--temp", "0", "-q")
        self.assertEqual(quiet.err, "")
        self.assertEqual(quiet.out, r.out)

    def test_json_is_one_document(self):
        for args in (["tokenize", self.tiny, "a"], ["inspect", self.tiny], ["devices"],
                     ["run", self.tiny, "-n", "2", "--temp", "0"]):
            with self.subTest(args):
                json.loads(self.ridge(*args, "--json").out)

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full here")
    def test_full_disk_on_stdout(self):
        ids = ",".join(["5"] * 20)
        for args in (["help"], ["--version"], ["run", "--help"], ["help", "--man"], ["tokenize", self.tiny, "text"],
                     ["detokenize", self.tiny, ids], ["inspect", self.tiny, "--tensors"], ["inspect", self.tiny, "--json"],
                     ["run", self.tiny, "-n", "3", "--temp", "0"], ["run", self.tiny, "-n", "3", "--json"], ["devices"]):
            with self.subTest(args), open("/dev/full", "wb") as full:
                r = self.ridge(*args, code=FAILED, stdout=full)
                self.assertRegex(r.err, "cannot write standard output")

    def test_closed_pipe(self):
        for args in (["inspect", self.tiny, "--tensors", "--json"], ["run", self.tiny, "-n", "200", "--temp", "0", "--ignore-eos"],
                     ["help", "--man"]):
            with self.subTest(args):
                p = subprocess.Popen([RIDGE, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder)
                p.stdout.read(1)
                p.stdout.close()
                err = p.stderr.read().decode()
                p.stderr.close()
                self.assertIn(p.wait(e2e.HANG), (DONE, FAILED), err)
                if p.returncode == FAILED:
                    self.assertRegex(err, "cannot write standard output: (.*pipe|an earlier write failed)")

    def test_device_that_is_not_there(self):
        for device in ("cuda:99", "metal:99", "abacus"):
            with self.subTest(device):
                p = subprocess.run([RIDGE, "run", self.tiny, "-p", "a", "-n", "1", "--device", device],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                self.assertIn(p.returncode, (FAILED, USAGE, REJECTED), p.stderr)
                self.assertIn(device.split(":")[0], p.stderr.decode())


if __name__ == "__main__":
    e2e.main()
