"""Input that cannot be used: each says what is wrong, ends with its exit code, and leaves nothing behind."""
import json
import math
import os
import stat
import random
import shutil
import signal
import socket
import struct
import subprocess
import time
import unittest

import e2e
from e2e import DATA, DONE, FAILED, REJECTED, TINY, USAGE

LLAMA = os.path.join(DATA, "golden", "llama")


class BadFiles(e2e.Case):
    def test_not_a_file(self):
        """A directory, a FIFO, a socket, a dangling link, an empty file and none at all, wherever a file is read."""
        os.mkdir(self.path("folder"))
        os.mkfifo(self.path("fifo"))
        os.symlink("nowhere", self.path("dangling"))
        self.write("empty", b"")
        s = socket.socket(socket.AF_UNIX)
        os.chdir(self.folder)  # the path of a socket must be short
        s.bind("sock")
        os.chdir(e2e.SOURCE)
        self.addCleanup(s.close)
        uses = {"model": lambda f: ["run", f, "-p", "a"], "tokenizer": lambda f: ["tokenize", f, "a"],
                "inspect": lambda f: ["inspect", f], "quantize": lambda f: ["quantize", f, "out", "Q8_0"],
                "imatrix": lambda f: ["quantize", self.tiny, "out", "Q8_0", "--imatrix", f],
                "text": lambda f: ["perplexity", self.tiny, "-f", f], "prompt": lambda f: ["run", self.tiny, "-f", f],
                "base": lambda f: ["perplexity", self.tiny, "-f", e2e.CALIBRATION, "-c", "32", "--chunks", "1", "--base", f],
                "convert": lambda f: ["convert", f, "-o", "out"]}
        for use, arguments in uses.items():
            for name in ("folder", "fifo", "sock", "dangling", "empty", "missing"):
                # An empty prompt is allowed: the model begins after BOS. Text from a named pipe is ordinary use.
                if use in ("prompt", "text") and name in ("empty", "fifo"):
                    continue
                with self.subTest(use=use, file=name):
                    r = self.run_either(arguments(name), (FAILED, USAGE, REJECTED))
                    self.assertIn(name, r.err)

    def run_either(self, args, codes):
        """Any of the codes, then the checks of self.ridge."""
        for code in codes:
            try:
                return self.ridge(*args, code=code)
            except AssertionError:
                if code == codes[-1]:
                    raise

    def test_gguf_cut_short(self):
        """Cut anywhere in the header and at many places in the data."""
        data = e2e.read(self.tiny)
        seed = int(time.time())
        print(f"seed {seed}", end=" ", flush=True)
        rng = random.Random(seed)
        offsets = [0, 1, 3, 4, 8, 15, 16, 23, 24, 25, len(data) - 1, len(data) // 2]
        offsets += [rng.randrange(len(data)) for _ in range(10)] + [rng.randrange(100000) for _ in range(20)]
        for n in offsets:
            with self.subTest(n):
                self.write("cut.gguf", data[:n])
                r = self.ridge("inspect", "cut.gguf", code=REJECTED)
                self.assertIn("cut.gguf", r.err)
        self.ridge("run", "cut.gguf", "-p", "a", code=REJECTED)
        self.ridge("quantize", "cut.gguf", "out.gguf", "Q8_0", code=REJECTED)

    def test_gguf_of_one_key_that_lies(self):
        """A string that claims 2**63 bytes, and 2**60 tensors."""
        self.write("lie1.gguf", struct.pack("<4sIQQQ", b"GGUF", 3, 0, 1, 1 << 63) + b"key")
        self.write("lie2.gguf", struct.pack("<4sIQQ", b"GGUF", 3, 1 << 60, 0) + b"\0" * 100)
        self.write("not.gguf", b"this is no model, it is text. " * 10)
        for name in ("lie1.gguf", "lie2.gguf", "not.gguf"):
            with self.subTest(name):
                self.assertIn(name, self.ridge("inspect", name, code=REJECTED).err)

    def folder_with(self, name, source, **changes):
        """A copy of a Hugging Face folder; changes: file name (dots as __) → function of its bytes, or None to leave it out."""
        target = self.path(name)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
        for key, change in changes.items():
            path = os.path.join(target, key.replace("__", "."))
            if change is None:
                os.remove(path)
                continue
            data = change(e2e.read(path))
            with open(path, "wb") as f:
                f.write(data)
        return name

    def test_folder_that_is_not_whole(self):
        cases = {"no config": ({"config__json": None}, "config.json"),
                 "no weights": ({"model__safetensors": None}, "safetensors"),
                 "config cut": ({"config__json": lambda b: b[:len(b) // 2]}, "config.json"),
                 "config is a list": ({"config__json": lambda b: b"[1,2]"}, "config.json"),
                 "unknown architecture": ({"config__json": lambda b: b.replace(b"LlamaForCausalLM", b"ZebraForCausalLM")}, "Zebra"),
                 "a hyper-parameter of another model": ({"config__json": lambda b: b.replace(b'"num_hidden_layers": 2', b'"num_hidden_layers": 3')}, "layers.2"),
                 "weights cut": ({"model__safetensors": lambda b: b[:-1]}, "model.safetensors"),
                 "weights header cut": ({"model__safetensors": lambda b: b[:100]}, "model.safetensors"),
                 "header length lies": ({"model__safetensors": lambda b: struct.pack("<Q", 1 << 62) + b[8:]}, "model.safetensors")}
        for what, (changes, word) in cases.items():
            with self.subTest(what):
                self.folder_with("broken", LLAMA, **changes)
                r = self.run_either(["convert", "broken", "-o", "out.gguf"], (REJECTED, FAILED))
                self.assertIn(word, r.err)

    def test_shard_missing_and_tokenizer_broken(self):
        self.folder_with("shard", TINY)
        os.remove(self.path("shard/model-00002-of-00002.safetensors"))
        self.assertIn("model-00002-of-00002", self.run_either(["convert", "shard", "-o", "o.gguf"], (REJECTED, FAILED)).err)
        self.folder_with("broken-tokenizer", TINY, tokenizer__json=lambda b: b[:len(b) // 3])
        self.assertIn("tokenizer.json", self.ridge("convert", "broken-tokenizer", "-o", "o.gguf", code=REJECTED).err)

    def test_safetensors_with_a_value_that_is_not_finite(self):
        """NaN is refused whether values are copied, converted or quantised; the last tensor is a norm, kept as F32."""
        def last_is_nan(data):
            return data[:-2] + b"\xc0\x7f"

        def first_of_a_matrix_is_nan(data):
            n = struct.unpack("<Q", data[:8])[0]
            at = 8 + n + json.loads(data[8:8 + n])["model.layers.0.self_attn.q_proj.weight"]["data_offsets"][0]
            return data[:at] + b"\xc0\x7f" + data[at + 2:]

        for change in (last_is_nan, first_of_a_matrix_is_nan):
            self.folder_with("nan", LLAMA, model__safetensors=change)
            r = self.ridge("inspect", "nan", "--verify", "--json", code=e2e.NEGATIVE).json
            self.assertEqual((r["verdict"], len(r["problems"])), ("bad", 1))
            self.assertIn("not finite", r["problems"][0])
            self.assertEqual(self.ridge("inspect", "nan", "--json").json["verdict"], "not verified")
            for kind in ("auto", "f32", "f16", "bf16", "q8_0", "Q4_0"):
                with self.subTest(kind, change=change.__name__):
                    self.assertRegex(self.ridge("convert", "nan", "-o", "o.gguf", "--type", kind, code=REJECTED).err, "nan|finite")

    def test_what_people_confuse(self):
        """A message says what to do instead."""
        os.makedirs(self.path("empty-folder"), exist_ok=True)
        few = ["-f", e2e.CALIBRATION, "--chunks", "1"]
        for code, words, args in (
                (FAILED, "ridge convert", ["run", TINY, "-p", "a"]), (FAILED, "ridge convert", ["quantize", TINY, "out", "Q8_0"]),
                (REJECTED, "convert it to GGUF first", ["run", os.path.join(TINY, "model-00001-of-00002.safetensors")]),
                (USAGE, "ridge quantize", ["convert", self.tiny, "-o", "out"]),
                (FAILED, "'empty-folder' has no config.json", ["convert", "empty-folder", "-o", "out"]),
                (FAILED, "cannot open 'none': No such file", ["convert", "none", "-o", "out"]),
                (USAGE, "even number from 4", ["perplexity", self.tiny, *few, "-c", "7"]),
                (USAGE, "auto, cpu, vulkan and vulkan:N", ["run", self.tiny, "-p", "a", "--device", "cuda"]),
                (REJECTED, "made by --save-base", ["perplexity", self.tiny, *few, "-c", "16", "--base", self.tiny])):
            with self.subTest(args):
                self.assertIn(words, self.ridge(*args, code=code).err)

    def test_output_that_cannot_be_made(self):
        """Output into a missing folder, over a folder, over the input."""
        os.makedirs(self.path("a-folder"), exist_ok=True)
        for out in ("missing-folder/out", "a-folder"):
            for args in (["convert", TINY, "-o", out], ["quantize", self.tiny, out, "Q8_0"],
                         ["synth", out, "--like", "qwen3-0.6b", "--layers", "1"],
                         ["logits", self.tiny, "--tokens", "1", "-o", out],
                         ["imatrix", self.tiny, "-f", e2e.CALIBRATION, "-c", "16", "--chunks", "1", "-o", out],
                         ["perplexity", self.tiny, "-f", e2e.CALIBRATION, "-c", "16", "--chunks", "1", "--save-base", out]):
                with self.subTest(args[0], out=out):
                    err = self.run_either(args, (FAILED, USAGE)).err
                    self.assertIn(out, err)
                    self.assertNotIn("unchecked", err)
                    if "/" in out:
                        self.assertIn("no folder 'missing-folder/'", err)
        before = e2e.read(self.tiny)
        os.symlink(self.tiny, self.path("link.gguf"))
        for out in (self.tiny, os.path.join(self.folder, ".", "tiny.gguf"), "link.gguf"):
            with self.subTest(out=out):
                self.assertIn("input and output", self.ridge("quantize", self.tiny, out, "Q8_0", code=USAGE).err)
        self.assertEqual(e2e.read(self.tiny), before)
        self.assertTrue(os.path.islink(self.path("link.gguf")))

    def test_output_over_a_pipe(self):
        """Nothing but a file is replaced: as root the rename would take the place of /dev/null itself."""
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        os.symlink(pipe, self.path("link-to-pipe"))
        few = ["-f", e2e.CALIBRATION, "-c", "16", "--chunks", "1"]
        for out in ("pipe", "link-to-pipe"):
            for args in (["convert", TINY, "-o", out], ["quantize", self.tiny, out, "Q8_0"],
                         ["synth", out, "--like", "qwen3-0.6b", "--layers", "1"],
                         ["logits", self.tiny, "--tokens", "1", "-o", out], ["imatrix", self.tiny, *few, "-o", out],
                         ["perplexity", self.tiny, *few, "--save-base", out],
                         ["run", self.tiny, "-p", "a", "-n", "1", "--save-state", out]):
                with self.subTest(args[0], out=out):
                    self.assertIn("device or a pipe", self.ridge(*args, code=FAILED).err)
                    self.assertTrue(stat.S_ISFIFO(os.stat(pipe).st_mode))
        self.assertTrue(os.path.islink(self.path("link-to-pipe")))

    def test_failure_keeps_what_was_there(self):
        """The output of an earlier run survives a failed one."""
        self.write("old.gguf", b"what was here before")
        self.ridge("convert", TINY, "-o", "old.gguf", code=FAILED, file_limit=100000)
        self.assertEqual(e2e.read(self.path("old.gguf")), b"what was here before")

    def test_file_that_may_not_grow(self):
        """A full disk, imitated by the limit of a file's size: every command that writes, at several sizes."""
        for limit in (0, 1, 5000, 100000, 3000000):
            for args in (["convert", TINY, "-o", "out"], ["convert", TINY, "-o", "out", "--type", "Q4_K_M"],
                         ["quantize", self.tiny, "out", "Q4_K_M"], ["quantize", self.tiny, "out", "Q8_0", "--split", "4000000"],
                         ["synth", "out", "--like", "qwen3-0.6b", "--layers", "1"]):
                with self.subTest(args, limit=limit):
                    err = self.ridge(*args, code=FAILED, file_limit=limit).err
                    self.assertRegex(err, "'out(-0000[0-9]-of-0000[0-9].gguf)?'.*[Ff]ile too large")  # the name that the user gave
        few = ["-f", e2e.CALIBRATION, "-c", "16", "--chunks", "1"]
        for args in (["logits", self.tiny, "--tokens", "1,2,3", "-o", "out.npy"], ["imatrix", self.tiny, *few, "-o", "out"],
                     ["perplexity", self.tiny, *few, "--save-base", "out"]):
            with self.subTest(args):
                self.assertRegex(self.ridge(*args, code=FAILED, file_limit=1000).err, "[Ff]ile too large")


class Stopped(e2e.Case):
    """Ctrl-C and the like in the middle of what writes: an error, and nothing is left behind."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # what runs under nohup ignores some, and so would ridge
            if signal.getsignal(number) == signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        cls.large = cls.path("large.gguf")
        subprocess.run([e2e.RIDGE, "synth", cls.large, "--like", "qwen3-0.6b", "--layers", "1", "--type", "F16", "-q"], check=True,
                       stdout=subprocess.DEVNULL)

    def signalled(self, number, *args):
        """A run that gets the signal when its output has been begun, or is over: then this came too late."""
        p = subprocess.Popen([e2e.RIDGE, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder, env=e2e.ENVIRONMENT)
        while p.poll() is None and not any("ridge-tmp" in name for name in os.listdir(self.folder)):
            time.sleep(0.01)
        p.send_signal(number)
        return p

    def stop(self, number, *args):
        before = self.listing()
        for _ in range(20):
            p = self.signalled(number, *args)
            out, err = p.communicate(timeout=e2e.HANG)
            if p.returncode != DONE:
                break
            for name in self.listing().keys() - before.keys():  # a machine that paused this test and not ridge
                os.remove(self.path(name))
        self.assertEqual(p.returncode, FAILED, err)
        self.assertRegex(err.decode(), "stopp|cancel")
        self.assertEqual((self.listing(), out), (before, b""))

    def test_stopped(self):
        text = ["-f", e2e.CALIBRATION, "-c", "16"]
        self.stop(signal.SIGINT, "quantize", self.large, "out.gguf", "Q2_K", "-t", "1")
        self.stop(signal.SIGTERM, "quantize", self.large, "out.gguf", "Q2_K", "-q", "--split", "50000000")
        self.stop(signal.SIGHUP, "synth", "out.gguf", "--like", "llama-3b")
        self.stop(signal.SIGINT, "convert", TINY, "-o", "out.gguf", "--type", "Q2_K", "-t", "1")
        self.stop(signal.SIGINT, "perplexity", self.tiny, *text, "--save-base", "base")

    def test_stopped_twice(self):
        """The second time it ends at once, and what was half written is gone."""
        for args in (["quantize", self.large, "out.gguf", "Q2_K", "-t", "1"], ["convert", TINY, "--output=out.gguf", "--type", "Q2_K"]):
            before = self.listing()
            for _ in range(20):
                p = self.signalled(signal.SIGTERM, *args)
                if any(b"once more" in line for line in p.stderr):
                    break
                self.assertEqual(p.wait(e2e.HANG), DONE)  # it came too late
                os.remove(self.path("out.gguf"))
            else:
                self.fail("it does not say what a second signal does")
            p.send_signal(signal.SIGINT)
            p.communicate(timeout=e2e.HANG)
            self.assertIn(p.returncode, (-signal.SIGINT, FAILED))  # or it was over before
            self.assertEqual(self.listing(), before)

    def test_old_output_stays(self):
        self.write("old.gguf", b"what was here before")
        self.stop(signal.SIGINT, "quantize", self.large, "old.gguf", "Q2_K", "-t", "1")
        self.assertEqual(e2e.read(self.path("old.gguf")), b"what was here before")


class BadText(e2e.Case):
    def test_empty_prompt(self):
        """With BOS the model begins by itself; without BOS there is nothing to begin with."""
        r = self.ridge("run", self.tiny, "-p", "", "-n", "3", "--temp", "0", "--json").json
        self.assertEqual(r["prompt_tokens"], [1])
        self.write("empty.txt", b"")
        self.assertEqual(self.ridge("run", self.tiny, "-f", "empty.txt", "-n", "3", "--temp", "0", "--json").json["tokens"], r["tokens"])
        no_bos = self.path("no-bos.gguf")
        data = e2e.read(self.tiny)
        key = b"tokenizer.ggml.add_bos_token" + struct.pack("<I", 7)
        at = data.index(key) + len(key)
        self.write("no-bos.gguf", data[:at] + b"\0" + data[at + 1:])
        for args in (["-p", ""], ["-f", "empty.txt"], []):
            with self.subTest(args):
                self.assertIn("empty", self.ridge("run", no_bos, *args, "-n", "3", code=USAGE).err)
        self.assertEqual(self.ridge("tokenize", no_bos, "", "--json").json["ids"], [])
        self.ridge("run", no_bos, "-p", "Once", "-n", "3", "--temp", "0")

    def test_text_too_short_to_measure(self):
        self.write("short.txt", b"Once upon a time.")
        for args in (["perplexity", self.tiny, "-f", "short.txt"], ["imatrix", self.tiny, "-f", "short.txt", "-o", "out"]):
            with self.subTest(args):
                r = self.ridge(*args, code=REJECTED)
                self.assertRegex(r.err, "-c")

    def test_prompt_longer_than_the_context(self):
        r = self.ridge("run", self.tiny, "-p", "one two three four five six seven", "-c", "4", code=REJECTED)
        self.assertIn("context", r.err)
        self.assertEqual(r.out, "", "the prompt was printed although it is rejected")

    def test_context_of_one(self):
        r = self.ridge("run", self.tiny, "-p", "", "-c", "1", "-n", "5", "--temp", "0", "--ignore-eos", "--json").json
        self.assertEqual((len(r["tokens"]), r["finish_reason"]), (1, "context"))

    @unittest.skipIf(e2e.SANITIZED, "sanitizers need more addresses than the limit")
    def test_context_that_no_memory_holds(self):
        r = self.ridge("run", self.tiny, "-p", "a", "-c", "1000000000", code=FAILED, address_limit=64 << 30)
        self.assertIn("-c", r.err)

    def test_context_beyond_training_is_told(self):
        r = self.ridge("run", self.tiny, "-p", "a", "-c", "2000", "-n", "1", "--temp", "0")
        self.assertIn("1024", r.err)

    def test_bytes_that_are_not_utf8(self):
        bad = b"caf\xe9 \xff\xfe \xf0\x9f ok"
        self.write("latin.txt", bad)
        r = self.ridge("tokenize", self.tiny, "-f", "latin.txt", "--no-bos", "--json").json
        p = self.ridge("detokenize", self.tiny, ",".join(map(str, r["ids"])))
        self.assertIn("ok", p.out)
        self.ridge("run", self.tiny, "-f", "latin.txt", "-n", "2", "--temp", "0", "--json")
        self.ridge("run", self.tiny, "-f", "latin.txt", "-n", "2", "--temp", "0")
        self.ridge("run", self.tiny, "-f", "-", "-n", "2", "--temp", "0", stdin=b"a\0b\0c")

    def test_model_without_tokenizer(self):
        self.ridge("convert", LLAMA, "-o", "ids.gguf", "-q")
        for args in (["run", "ids.gguf", "-p", "a"], ["tokenize", "ids.gguf", "a"], ["detokenize", "ids.gguf", "1"],
                     ["embed", "ids.gguf", "a"], ["perplexity", "ids.gguf", "-f", e2e.CALIBRATION],
                     ["imatrix", "ids.gguf", "-f", e2e.CALIBRATION, "-o", "out"]):
            with self.subTest(args):
                self.assertIn("no tokenizer", self.ridge(*args, code=REJECTED).err)

    def test_token_outside_the_vocabulary(self):
        r = self.ridge("logits", self.tiny, "--tokens", "1,999999", "-o", "out", code=USAGE)
        self.assertIn("999999", r.err)

    def test_vocabulary_only_file_has_no_weights(self):
        r = self.ridge("run", os.path.join(DATA, "tokenizer", "gpt-2.gguf"), "-p", "a", code=REJECTED)
        self.assertRegex(r.err, "tensor|weight|key|gpt2")

    def test_imatrix_of_another_model(self):
        self.ridge("convert", LLAMA, "-o", "other.gguf", "-q")
        self.ridge("imatrix", self.tiny, "-f", e2e.CALIBRATION, "-c", "16", "--chunks", "1", "-o", "tiny.imatrix")
        r = self.run_both("quantize", "other.gguf", "mixed.gguf", "Q4_0", "--imatrix", "tiny.imatrix")
        self.assertRegex(r.err, "columns|importance")

    def run_both(self, *args):
        """Rejected, or done with a warning."""
        try:
            return self.ridge(*args, code=REJECTED)
        except AssertionError:
            r = self.ridge(*args, code=DONE)
            self.assertIn("warning", r.err)
            return r

    def test_base_of_another_text(self):
        few = ["-f", e2e.CALIBRATION, "-c", "16"]
        self.ridge("perplexity", self.tiny, *few, "--chunks", "2", "--save-base", "base.kld")
        self.write("other.txt", b"Quite another text is this one, and it goes on for a while. " * 20)
        self.ridge("perplexity", self.tiny, "-f", "other.txt", "-c", "16", "--chunks", "2", "--base", "base.kld", code=REJECTED)
        self.ridge("perplexity", self.tiny, "-f", e2e.CALIBRATION, "-c", "32", "--chunks", "1", "--base", "base.kld", code=REJECTED)
        data = e2e.read(self.path("base.kld"))
        for n in (1, 7, 20, len(data) // 2, len(data) - 1):
            with self.subTest(n):
                self.write("cut.kld", data[:n])
                self.ridge("perplexity", self.tiny, *few, "--chunks", "2", "--base", "cut.kld", code=REJECTED)
        scale = 8 + 3 * 4 + 2 * 16 * 4  # of the first row, behind header and tokens
        for at, value in ((scale, math.nan), (scale, math.inf), (scale, -1), (scale, 1e30), (scale + 4, math.nan),
                          (scale + 4, -math.inf), (scale + 4, 100), (len(data) - 4, math.nan)):
            with self.subTest(at=at, value=value):
                self.write("lies.kld", data[:at] + struct.pack("<f", value) + data[at + 4:])
                r = self.ridge("perplexity", self.tiny, *few, "--chunks", "2", "--base", "lies.kld", code=REJECTED)
                self.assertIn("no log-probabilities", r.err)

    def test_imatrix_cut_short(self):
        self.ridge("imatrix", self.tiny, "-f", e2e.CALIBRATION, "-c", "16", "--chunks", "1", "-o", "whole.imatrix")
        data = e2e.read(self.path("whole.imatrix"))
        for n in (4, 30, 1000, len(data) // 2, len(data) - 100):
            with self.subTest(n):
                self.write("cut.imatrix", data[:n])
                self.ridge("quantize", self.tiny, "out", "Q4_0", "--imatrix", "cut.imatrix", code=REJECTED)


if __name__ == "__main__":
    e2e.main()
