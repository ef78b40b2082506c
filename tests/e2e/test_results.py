"""What each command reports: the keys of --json, and values that can be known beforehand."""
import math
import os
import re
import struct

import e2e
from e2e import CALIBRATION, DATA, NEGATIVE

TEXT = ["perplexity", "perplexity_stderr", "n_chunks", "n_scored_tokens", "kl_mean", "kl_p99", "same_top", "ln_ratio"]


class Results(e2e.Case):
    def keys(self, document, *names):
        for name in names:
            self.assertIn(name, document)
        self.assertIsInstance(document["warnings"], list)

    def test_convert(self):
        r = self.ridge("convert", e2e.TINY, "-o", "c.gguf", "--name", "Tim", "--json").json
        self.keys(r, "output", "architecture", "n_tensors", "n_params", "bytes", "seconds")
        self.assertEqual((r["output"], r["architecture"]), ("c.gguf", "llama"))
        self.assertEqual(r["bytes"], os.path.getsize(self.path("c.gguf")))
        found = self.ridge("inspect", "c.gguf", "--json").json
        self.assertEqual(found["metadata"]["general.name"], "Tim")
        self.assertEqual(r["n_tensors"], len(found["tensors"]))
        self.assertEqual(r["n_params"], sum(math.prod(t["dims"]) for t in found["tensors"]))

    def test_convert_to_each_plain_type(self):
        for kind, element in (("f32", "F32"), ("f16", "F16"), ("bf16", "BF16"), ("q8_0", "Q8_0"), ("auto", "BF16")):
            with self.subTest(kind):
                self.ridge("convert", e2e.TINY, "-o", f"t-{kind}.gguf", "--type", kind)
                tensors = self.ridge("inspect", f"t-{kind}.gguf", "--json").json["tensors"]
                self.assertEqual({t["type"] for t in tensors if len(t["dims"]) == 2}, {element})

    def test_convert_without_tokenizer_warns_and_runs_by_ids(self):
        r = self.ridge("convert", os.path.join(DATA, "golden", "llama"), "-o", "ids.gguf", "--json")
        self.assertRegex(" ".join(r.json["warnings"]), "tokenizer")
        self.assertIn("warning", r.err)
        self.assertEqual(self.ridge("logits", "ids.gguf", "--tokens", "1,2,3", "-o", "ids.npy", "--json").json["shape"][0], 3)

    def test_imatrix(self):
        r = self.ridge("imatrix", self.tiny, "-f", CALIBRATION, "-o", "m.imatrix", "-c", "64", "--chunks", "2", "--json").json
        self.keys(r, "output", "n_chunks", "n_tokens", "seconds", "perplexity", "tensors")
        self.assertEqual((r["n_chunks"], r["n_tokens"]), (2, 128))
        self.assertGreater(r["perplexity"], 1)
        for t in r["tensors"]:
            self.assertEqual(set(t) & {"name", "n_columns", "n_samples"}, {"name", "n_columns", "n_samples"})
            self.assertEqual(t["n_samples"], 128)

    def test_quantize(self):
        r = self.ridge("quantize", self.tiny, "q.gguf", "Q4_K_M", "--json").json
        self.keys(r, "bytes_in", "bytes_out", "bits_per_weight", "seconds", "tensors")
        self.assertEqual(r["bytes_out"], os.path.getsize(self.path("q.gguf")))
        self.assertTrue(4 < r["bits_per_weight"] < 7)
        for t in r["tensors"]:
            for key in ("name", "type_in", "type_out", "n_rows", "n_columns", "rmse", "warning"):
                self.assertIn(key, t)
        kinds = {t["name"]: t["type_out"] for t in r["tensors"]}
        self.assertEqual(kinds["blk.0.attn_q.weight"], "Q4_K")
        dry = self.ridge("quantize", self.tiny, "dry.gguf", "Q4_K_M", "--dry-run", "--json").json
        self.assertEqual({t["name"]: t["type_out"] for t in dry["tensors"]}, kinds)
        self.assertEqual(dry["bytes_out"], r["bytes_out"])
        self.assertFalse(os.path.exists(self.path("dry.gguf")))
        self.ridge("imatrix", self.tiny, "-f", CALIBRATION, "-o", "w.imatrix", "-c", "64", "--chunks", "1", "-q")
        weighted = self.ridge("quantize", self.tiny, "w.gguf", "Q4_K_M", "--imatrix", "w.imatrix").out
        self.assertRegex(weighted, r"blk\.0\.attn_q\.weight .* rmse \S+  weighted \d")
        self.assertNotRegex(weighted, r"token_embd\.weight .* weighted \d")

    def test_quantize_options(self):
        r = self.ridge("quantize", self.tiny, "o.gguf", "Q4_0", "--tensor-type", "ffn_down=Q6_K",
                       "--token-embedding-type", "Q8_0", "--json").json
        kinds = {t["name"]: t["type_out"] for t in r["tensors"]}
        self.assertEqual(kinds["blk.3.ffn_down.weight"], "Q6_K")
        self.assertEqual(kinds["token_embd.weight"], "Q8_0")
        pure = self.ridge("quantize", self.tiny, "p.gguf", "Q4_K_M", "--pure", "--json").json
        self.assertEqual({t["type_out"] for t in pure["tensors"] if t["type_out"] != t["type_in"]}, {"Q4_K"})

    def test_split_output_is_read_back_as_one(self):
        self.ridge("quantize", self.tiny, "s.gguf", "Q8_0", "--split", "3000000")
        parts = sorted(n for n in os.listdir(self.folder) if n.startswith("s-0"))
        self.assertGreater(len(parts), 1)
        self.ridge("quantize", self.tiny, "whole.gguf", "Q8_0")
        a = self.ridge("run", parts[0], "-p", "Once", "-n", "8", "--temp", "0", "--json").json
        b = self.ridge("run", "whole.gguf", "-p", "Once", "-n", "8", "--temp", "0", "--json").json
        self.assertEqual(a["tokens"], b["tokens"])
        os.remove(self.path(parts[-1]))
        self.assertIn(parts[-1], self.ridge("inspect", parts[0], code=e2e.FAILED).err)

    def test_inspect(self):
        r = self.ridge("inspect", self.tiny, "--json").json
        self.keys(r, "format", "version", "metadata", "tensors", "verdict", "problems")
        self.assertEqual((r["format"], r["version"], r["verdict"]), ("gguf", 3, "not verified"))
        self.assertEqual(r["metadata"]["general.architecture"], "llama")
        r = self.ridge("inspect", self.tiny, "--verify", "--json").json
        self.assertEqual((r["verdict"], r["problems"]), ("good", []))
        r = self.ridge("inspect", os.path.join(DATA, "golden", "llama", "model.safetensors"), "--json").json
        self.keys(r, "format", "version", "metadata", "tensors", "verdict", "problems")
        self.assertEqual(r["format"], "safetensors")
        self.assertIn("token_embd.weight", self.ridge("inspect", self.tiny, "--tensors").out)

    def test_inspect_verify_finds_damage(self):
        """One flipped bit in the last tensor: structure is sound, the checksum is not."""
        self.ridge("quantize", self.tiny, "sound.gguf", "Q8_0")
        data = bytearray(e2e.read(self.path("sound.gguf")))
        data[-100] ^= 0x10
        self.write("damaged.gguf", bytes(data))
        r = self.ridge("inspect", "damaged.gguf", "--verify", "--json", code=NEGATIVE).json
        self.assertEqual(r["verdict"], "bad")
        self.assertEqual(len(r["problems"]), 1)
        self.assertIn("checksum", r["problems"][0])

    def test_tokenize_and_back(self):
        text = "Once upon a time, in Zürich 東京 🙂"
        r = self.ridge("tokenize", self.tiny, text, "--json").json
        self.keys(r, "ids", "pieces")
        self.assertEqual(len(r["ids"]), len(r["pieces"]))
        bare = self.ridge("tokenize", self.tiny, text, "--no-bos", "--json").json
        self.assertEqual(r["ids"], [1] + bare["ids"])
        back = self.ridge("detokenize", self.tiny, ",".join(map(str, bare["ids"])), "--json").json
        self.keys(back, "text")
        self.assertEqual(back["text"], text)
        self.assertEqual(self.ridge("detokenize", self.tiny, *map(str, bare["ids"])).out, text + "\n")
        piped = self.ridge("tokenize", self.tiny, "-f", "-", "--json", stdin=text.encode()).json
        self.assertEqual(piped["ids"], r["ids"])

    def test_logits(self):
        r = self.ridge("logits", self.tiny, "--tokens", "1,5,9", "-o", "l.npy", "--json").json
        self.keys(r, "shape")
        data = e2e.read(self.path("l.npy"))
        self.assertEqual(data[:6], b"\x93NUMPY")
        header = data[10:10 + struct.unpack("<H", data[8:10])[0]].decode()
        self.assertRegex(header, re.escape(f"'shape': ({r['shape'][0]}, {r['shape'][1]})"))
        self.assertEqual(len(data), 10 + len(header) + 4 * 3 * r["shape"][1])
        # what the session warns of is passed on
        r = self.ridge("logits", self.tiny, "--tokens", "1,5,9", "-o", "l.npy", "--gpu-layers", "3", "--json").json
        self.assertIn("the device is the CPU", r["warnings"][0])

    def test_logits_that_are_no_numbers_are_counted(self):
        """One row of the embedding is NaN. ridge-tiny is tied, so that row is also the logit of its token everywhere."""
        tensors = self.ridge("inspect", self.tiny, "--json").json["tensors"]
        embd = next(t for t in tensors if t["name"] == "token_embd.weight")
        row = embd["bytes"] // embd["dims"][1]
        data = bytearray(e2e.read(self.tiny))
        start = len(data) - max(t["offset"] + (t["bytes"] + 31) // 32 * 32 for t in tensors) + embd["offset"]
        data[start + 77 * row:start + 77 * row + 2] = b"\xc0\x7f"
        self.write("nan.gguf", bytes(data))
        sound = self.ridge("logits", self.tiny, "--tokens", "1,5,9", "-o", "l.npy", "--json").json
        self.assertEqual((sound["n_not_finite"], sound["warnings"]), (0, []))
        r = self.ridge("logits", "nan.gguf", "--tokens", "1,5,9", "-o", "l.npy", "--json").json
        self.assertEqual(r["n_not_finite"], 3)
        self.assertIn("3 logits are NaN and 0 infinite, in 3 of 3 positions, the first at position 0 for token 77", r["warnings"][0])
        r = self.ridge("logits", "nan.gguf", "--tokens", "1,77", "-o", "l.npy").err
        self.assertIn(" in 2 of 2 positions", r)
        r = self.ridge("perplexity", "nan.gguf", "-f", CALIBRATION, "-c", "16", "--chunks", "2", "--json").json
        self.assertIsNone(r["perplexity"])
        self.assertGreaterEqual(r["n_not_finite"], 14)
        self.assertIn("in 14 of 14 scored positions, the first in chunk 0 at position 8", r["warnings"][0])

    def test_run(self):
        r = self.ridge("run", self.tiny, "-p", "Once upon a time", "-n", "6", "--temp", "0", "--json").json
        self.keys(r, "text", "prompt_tokens", "tokens", "finish_reason", "load_seconds", "prefill", "decode", "device",
                  "peak_rss_bytes", "placement")
        for phase, n in (("prefill", len(r["prompt_tokens"])), ("decode", 6)):
            self.assertEqual(r[phase]["n_tokens"], n)
            self.assertGreater(r[phase]["seconds"], 0)
            self.assertGreater(r[phase]["tokens_per_second"], 0)
        self.assertEqual((r["finish_reason"], r["device"]), ("length", "cpu"))
        self.assertAlmostEqual(r["decode"]["tokens_per_second"] * r["decode"]["seconds"], 5, places=3)  # the first token took no step
        streamed = self.ridge("run", self.tiny, "-p", "Once upon a time", "-n", "6", "--temp", "0").out
        self.assertEqual(streamed, "Once upon a time" + r["text"] + "\n")

    def test_run_by_token_ids(self):
        """--tokens are the prompt as it is: nothing is put in front."""
        text = self.ridge("run", self.tiny, "-p", "Once upon a time", "-n", "6", "--temp", "0", "--json").json
        ids = ",".join(map(str, text["prompt_tokens"]))
        by_ids = self.ridge("run", self.tiny, "--tokens", ids, "-n", "6", "--temp", "0", "--json").json
        for key in ("prompt_tokens", "tokens", "text"):
            self.assertEqual(by_ids[key], text[key])
        self.assertEqual(self.ridge("run", self.tiny, "--tokens", ids, "-n", "6", "--temp", "0").out, "Once upon a time" + text["text"] + "\n")
        self.assertEqual(self.ridge("run", self.tiny, "--tokens", ids.split(",")[-1], "-n", "1", "--json").json["prompt_tokens"],
                         text["prompt_tokens"][-1:])
        for args, word in ((["--tokens", "1", "-p", "a"], "one of"), (["--tokens", ""], "empty"), (["--tokens", "1,x"], "'x'"),
                           (["--tokens", "999999"], "vocabulary")):
            with self.subTest(args):
                self.assertIn(word, self.ridge("run", self.tiny, *args, code=2).err)

    def test_run_from_a_file_and_from_a_pipe(self):
        self.write("prompt.txt", b"Once upon a time")
        a = self.ridge("run", self.tiny, "-f", "prompt.txt", "-n", "4", "--temp", "0", "--json").json
        b = self.ridge("run", self.tiny, "-f", "-", "-n", "4", "--temp", "0", "--json", stdin=b"Once upon a time").json
        self.assertEqual(a["tokens"], b["tokens"])

    def test_run_of_no_tokens(self):
        r = self.ridge("run", self.tiny, "-p", "Once", "-n", "0", "--json").json
        self.assertEqual((r["text"], r["tokens"], r["decode"]["n_tokens"]), ("", [], 0))
        self.assertEqual(self.ridge("run", self.tiny, "-p", "Once", "-n", "0", "-q").out, "Once\n")

    def test_run_until_the_context_is_full_says_so(self):
        r = self.ridge("run", self.tiny, "-p", "Once", "-n", "50", "-c", "8", "--temp", "0", "--ignore-eos", "--json").json
        self.assertEqual(r["finish_reason"], "context")
        self.assertEqual(len(r["tokens"]) + len(r["prompt_tokens"]), 8 + 1)
        text = self.ridge("run", self.tiny, "-p", "Once", "-n", "50", "-c", "8", "--temp", "0", "--ignore-eos", "-q")
        self.assertIn("context of 8 is full", text.err)

    def test_embed(self):
        r = self.ridge("embed", self.tiny, "a cat", "a dog", "--json").json
        self.keys(r, "embeddings")
        self.assertEqual(len(r["embeddings"]), 2)
        for row in r["embeddings"]:
            self.assertAlmostEqual(sum(v * v for v in row), 1, places=4)

    def test_perplexity_and_divergence(self):
        args = ["-f", os.path.join(DATA, "text", "val_fiction.txt"), "-c", "64", "--chunks", "3", "--json"]
        r = self.ridge("perplexity", self.tiny, *args, "--save-base", "base.kld").json
        self.keys(r, *TEXT)
        self.assertEqual(r["n_chunks"], 3)
        self.assertIsNone(r["kl_mean"])
        same = self.ridge("perplexity", self.tiny, *args, "--base", "base.kld").json
        self.assertLess(abs(same["kl_mean"]), 1e-3)
        self.assertGreater(same["same_top"], 0.99)
        self.ridge("quantize", self.tiny, "q2.gguf", "Q2_K")
        worse = self.ridge("perplexity", "q2.gguf", *args, "--base", "base.kld").json
        self.assertGreater(worse["kl_mean"], same["kl_mean"] + 0.01)
        self.assertGreater(worse["ln_ratio"], 0)

    def test_synth_and_bench(self):
        r = self.ridge("synth", "y.gguf", "--like", "qwen3-0.6b", "--layers", "1", "--json").json
        self.keys(r, "bytes", "n_params")
        self.assertEqual(r["bytes"], os.path.getsize(self.path("y.gguf")))
        os.remove(self.path("y.gguf"))
        r = self.ridge("bench", self.tiny, "-p", "16", "-n", "4", "-r", "2", "--json").json
        self.keys(r, "device", "prefill", "decode")
        for speed in (r["prefill"][0]["tokens_per_second"], r["decode"]["tokens_per_second"]):
            self.assertTrue(0 < speed["min"] <= speed["median"] <= speed["max"])
        for key in ("bytes_per_token", "bandwidth_bytes_per_second", "fraction_of_read_bandwidth"):
            self.assertGreater(r["decode"][key], 0)

    def test_ops(self):
        """Every operation has a plain version for the CPU, a source file that exists, and a reason for each hole."""
        ops = self.ridge("ops", "--json").json["ops"]
        self.assertGreater(len(ops), 10)
        for op in ops:
            with self.subTest(op["name"]):
                self.assertIn("cpu", [v["backend"] for v in op["variants"]])
                for v in op["variants"]:
                    for key in ("name", "backend", "source", "requires", "verified"):
                        self.assertIn(key, v)
                    self.assertTrue(os.path.exists(os.path.join(e2e.SOURCE, v["source"])), v["source"])
                for gap in op["gaps"]:
                    self.assertTrue(gap["reason"])
        one = self.ridge("ops", "rmsnorm", "--json").json["ops"]
        self.assertEqual([op["name"] for op in one], ["rmsnorm"])
        self.assertIn("nonsense", self.ridge("ops", "nonsense", code=e2e.USAGE).err)

    def test_check(self):
        r = self.ridge("check", "rmsnorm", "--device", "cpu", "--json").json
        self.assertEqual(r["n_failed"], 0)
        self.assertGreater(r["n_passed"], 0)
        for key in ("op", "variant", "device", "case", "verdict", "error", "seed"):
            self.assertIn(key, r["results"][0])
        last = self.ridge("check", "rmsnorm", "--device", "cpu").out.splitlines()[-1]
        self.assertRegex(last, r"^[1-9]\d* passed, 0 failed, \d+ skipped$")
        self.assertIn("nonsense", self.ridge("check", "nonsense", code=e2e.USAGE).err)

    def test_bench_op(self):
        r = self.ridge("bench-op", "rmsnorm", "--device", "cpu", "--seconds", "0.05", "--json").json
        self.assertTrue(r["variants"])
        for row in [r, *r["variants"]]:
            for key in ("op", "variant", "shape", "seconds", "bytes", "flops", "bandwidth_bytes_per_second", "fraction_of_roof",
                        "verdict"):
                self.assertIn(key, row)
            self.assertTrue(0 < row["seconds"]["p25"] <= row["seconds"]["median"] <= row["seconds"]["p75"])

    def test_devices(self):
        cpu = self.ridge("devices", "--json").json["devices"][0]
        for key in ("name", "kind", "driver", "memory_bytes", "subgroup"):
            self.assertIn(key, cpu)
        self.assertEqual(cpu["kind"], "cpu")


if __name__ == "__main__":
    e2e.main()
