"""What must not depend on threads, steps or the way taken."""
import json
import unittest

import e2e
from e2e import CALIBRATION, TINY


class Same(e2e.Case):
    def test_same_seed_same_text_from_any_number_of_threads(self):
        for sampling in (["--temp", "0"], ["--temp", "1", "--seed", "11", "--top-k", "0", "--repeat-penalty", "1.1"],
                         ["--mirostat", "2", "--seed", "3"]):
            with self.subTest(sampling):
                texts = [self.ridge("run", self.tiny, "-p", "Once upon a time", "-n", "24", "-t", t, *sampling, "--json").json
                         for t in ("1", "2", "3")]
                self.assertEqual(texts[0]["tokens"], texts[1]["tokens"])
                self.assertEqual(texts[0]["tokens"], texts[2]["tokens"])
        a, b = (self.ridge("run", self.tiny, "-p", "Once", "-n", "24", "--temp", "1", "--seed", s, "--json").json["tokens"]
                for s in ("1", "2"))
        self.assertNotEqual(a, b)

    def test_files_are_the_same_bytes_from_one_or_two_threads(self):
        few = ["-f", CALIBRATION, "-c", "64", "--chunks", "3", "-q"]
        for name, command in (("imatrix", ["imatrix", self.tiny, *few, "-o"]),
                              ("convert", ["convert", TINY, "--type", "Q4_K_M", "-q", "-o"])):
            with self.subTest(name):
                files = []
                for threads in ("1", "2"):
                    out = f"{name}-{threads}"
                    self.ridge(*command, out, "-t", threads)
                    files.append(e2e.read(self.path(out)))
                self.assertEqual(files[0], files[1])
        for threads in ("1", "2"):
            self.ridge("quantize", self.tiny, f"q-{threads}", "Q4_K_M", "--imatrix", "imatrix-1", "-t", threads)
        self.assertEqual(e2e.read(self.path("q-1")), e2e.read(self.path("q-2")))

    def test_convert_straight_is_convert_then_quantize(self):
        """The same type and the same data for every tensor."""
        self.ridge("convert", TINY, "-o", "straight.gguf", "--type", "Q4_K_M", "-q")
        self.ridge("quantize", self.tiny, "steps.gguf", "Q4_K_M", "-q")
        a, b = (self.ridge("inspect", name, "--json").json for name in ("straight.gguf", "steps.gguf"))
        self.assertEqual({t["name"]: (t["type"], t["dims"]) for t in a["tensors"]},
                         {t["name"]: (t["type"], t["dims"]) for t in b["tensors"]})
        self.assertEqual(self.checksums(a), self.checksums(b))

    @staticmethod
    def checksums(document):
        """{tensor: checksum}: the order of tensors is the file's own affair."""
        digits = document["metadata"]["ridge.checksums"]
        return {t["name"]: digits[16 * i:16 * i + 16] for i, t in enumerate(document["tensors"])}

    def test_prefill_in_steps_of_any_size(self):
        text = " ".join(["The little dog ran over the hill and saw the sea."] * 6)
        runs = [self.ridge("run", self.tiny, "-p", text, "-n", "12", "--temp", "0", "-b", b, "--kv-type", "f32", "--json").json
                for b in ("512", "7", "1")]
        self.assertEqual(runs[0]["tokens"], runs[1]["tokens"])
        self.assertEqual(runs[0]["tokens"], runs[2]["tokens"])

    def test_every_cache_type_tells_nearly_the_same_story(self):
        for kind, most in (("f32", 0), ("f16", 1e-3), ("bf16", 1e-2), ("q8_0", 1e-2), ("q4_0", 0.1)):
            with self.subTest(kind):
                r = self.ridge("perplexity", self.tiny, "-f", CALIBRATION, "-c", "64", "--chunks", "2", "--kv-type", kind, "--json").json
                first = r["perplexity"] if kind == "f32" else first
                self.assertLessEqual(abs(r["perplexity"] / first - 1), most)

    def test_same_seed_same_text_on_a_gpu(self):
        """With float weights and caches the logits are alike, and the draw is one definition for all devices."""
        devices = self.ridge("devices", "--json").json["devices"]
        if not any(d["backend"] == "vulkan" for d in devices):
            self.skipTest("no Vulkan device")
        self.ridge("convert", TINY, "-o", "f32.gguf", "--type", "f32", "-q")
        story = ["run", "f32.gguf", "-p", "Once upon a time", "-n", "24", "--kv-type", "f32", "--json"]
        for sampling in (["--seed", "1", "--top-k", "40", "--top-p", "0.95", "--min-p", "0"], ["--seed", "2"],
                         ["--seed", "3", "--temp", "1.2", "--top-k", "0", "--top-p", "1", "--min-p", "0"]):
            with self.subTest(sampling):
                cpu = self.ridge(*story, *sampling).json
                runs = [self.ridge(*story, *sampling, "--device", "vulkan").json for _ in range(2)]
                self.assertEqual(runs[0]["tokens"], runs[1]["tokens"])
                self.assertEqual(runs[0]["tokens"], cpu["tokens"])
                self.assertEqual(runs[0]["sampling"], {"where": "device"})
                self.assertEqual(cpu["sampling"], {"where": "host", "reason": "the model runs on the processor"})
        r = self.ridge(*story, "--seed", "1", "--repeat-penalty", "1.1", "--device", "vulkan").json
        self.assertEqual(r["sampling"], {"where": "host", "reason": "repeat_penalty is 1.1"})
        r = self.ridge(*story, "--seed", "1", "-v", "--device", "vulkan")
        self.assertIn("tokens are picked on the device", r.err)

    def test_where_tokens_are_picked_is_told_to_who_asks(self):
        story = ["run", self.tiny, "-p", "Once upon a time", "-n", "2", "--seed", "1"]
        self.assertNotIn("picked", self.ridge(*story).err)
        self.assertIn("tokens are picked on the host: the model runs on the processor", self.ridge(*story, "-v").err)

    def test_timeline_of_a_gpu(self):
        devices = self.ridge("devices", "--json").json["devices"]
        if not any(d["backend"] == "vulkan" for d in devices):
            self.skipTest("no Vulkan device")
        r = self.ridge("bench", self.tiny, "--device", "vulkan", "-p", "0", "-n", "6", "-r", "1", "--timeline", "trace.json",
                       "--temp", "0.8", "--json").json
        t, trace = r["timeline"], json.loads(e2e.read(self.path("trace.json")))
        self.assertEqual((t["n_tokens"], len(t["tokens"])), (6, 6))
        self.assertAlmostEqual(t["busy_seconds"] + t["idle_inside_seconds"] + t["idle_between_seconds"], t["seconds"], 6)
        spans = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] != "token"]
        self.assertEqual(len(spans), t["n_launches"])
        self.assertEqual(sum(e["name"] == "sample" for e in spans), 6 * 5)
        self.assertEqual(trace["otherData"].keys(), t.keys())
        self.assertAlmostEqual(trace["otherData"]["idle_fraction"], t["idle_fraction"], 6)
        self.assertGreater(r["decode"]["fraction_of_read_bandwidth"], 0)
        self.ridge("bench", self.tiny, "-p", "0", "-n", "2", "--timeline", "-", code=e2e.REJECTED)

    def test_blocks_on_a_gpu_tell_the_same_story(self):
        devices = self.ridge("devices", "--json").json["devices"]
        if not any(d["backend"] == "vulkan" for d in devices):
            self.skipTest("no Vulkan device")
        story = ["run", self.tiny, "-p", "Once upon a time", "-n", "12", "--temp", "0", "--json"]
        cpu = self.ridge(*story).json
        self.assertEqual(cpu["placement"][0]["n_blocks"], 8)
        parts = {}
        for layers in ("0", "1", "5", "8"):
            r = self.ridge(*story, "--device", "vulkan", "--gpu-layers", layers)
            self.assertEqual(r.json["tokens"], cpu["tokens"])
            self.assertEqual(sum(p["n_blocks"] for p in r.json["placement"]), 8)
            self.assertEqual(sum(p["n_blocks"] for p in r.json["placement"] if p["device"] != "cpu"), int(layers))
            self.assertIn("blocks were asked for", r.err)
            parts[layers] = r.json["placement"]
        # just enough memory for five blocks
        gpu = parts["5"][1]
        enough = gpu["weight_bytes"] + gpu["kv_bytes"] + gpu["scratch_bytes"]
        for bytes_, layers in ((enough, 5), (enough - 1, 4)):
            r = self.ridge(*story, "--device", "vulkan", "--device-memory", str(bytes_))
            self.assertEqual(r.json["placement"][1]["n_blocks"], layers)
            self.assertIn("GB more", r.err)
        self.assertIn("the device is the CPU", self.ridge(*story, "--gpu-layers", "3").json["warnings"][0])
        r = self.ridge(*story, "--device", "vulkan", "--device-memory", "1000").json
        self.assertEqual((r["device"], len(r["placement"])), ("cpu", 1))
        self.assertIn("nothing runs on vulkan", r["warnings"][0])
        # the same sums of squares, wherever they were added up
        few = ["-f", CALIBRATION, "-c", "32", "--chunks", "2", "--json"]
        a = self.ridge("imatrix", self.tiny, *few, "-o", "cpu.imatrix").json
        b = self.ridge("imatrix", self.tiny, *few, "-o", "both.imatrix", "--device", "vulkan", "--gpu-layers", "3").json
        self.assertEqual(a["tensors"], b["tensors"])
        self.assertLess(abs(a["perplexity"] / b["perplexity"] - 1), 1e-3)


if __name__ == "__main__":
    e2e.main()
