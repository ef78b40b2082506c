"""run --save-state and --load-state go on as if nothing had happened; --shift drops what is oldest and says so."""
import json
import os
import subprocess
import unittest

import e2e
from e2e import FAILED, REJECTED, USAGE

PROMPT = "Once upon a time there was"


class State(e2e.Case):
    def run_model(self, *args, model=None, **more):
        return self.ridge("run", model or self.tiny, "--temp", "0", "--ignore-eos", "--json", *args, **more)

    def test_it_goes_on(self):
        for kv in ("f32", "f16", "bf16", "q8_0", "q4_0"):
            with self.subTest(kv):
                whole = self.run_model("-p", PROMPT, "-n", "16", "--kv-type", kv).json
                first = self.run_model("-p", PROMPT, "-n", "7", "--kv-type", kv, "--save-state", "a.state").json
                second = self.run_model("-n", "9", "--kv-type", kv, "--load-state", "a.state").json
                self.assertEqual(first["tokens"] + second["tokens"], whole["tokens"])
                self.assertEqual((second["n_restored_tokens"], second["prompt_tokens"]), (len(first["prompt_tokens"]) + 7, []))
                self.assertEqual(second["text"], whole["text"][len(first["text"]):])

    def test_more_text_goes_on_behind_it(self):
        first = self.run_model("-p", PROMPT, "-n", "0", "--save-state", "b.state").json
        second = self.run_model("-p", " a king", "-n", "5", "--load-state", "b.state", "-c", "40", "-b", "16").json
        again = self.run_model("--tokens", ",".join(map(str, first["prompt_tokens"] + second["prompt_tokens"])), "-n", "5").json
        self.assertEqual(second["tokens"], again["tokens"])
        self.assertNotEqual(second["prompt_tokens"][0], first["prompt_tokens"][0], "BOS in the middle")
        text = self.ridge("run", self.tiny, "--load-state", "b.state", "-p", " a king", "-n", "5", "--temp", "0", "-q").out
        self.assertEqual(text, " a king" + again["text"] + "\n")

    def test_a_state_moves_between_devices(self):
        names = [d["name"] for d in self.ridge("devices", "--json").json["devices"]]
        if not any("llvmpipe" in n or "vulkan" in n.lower() for n in names) and len(names) < 2:
            self.skipTest("one device only")
        whole = self.run_model("-p", PROMPT, "-n", "12", "--kv-type", "f32").json["tokens"]
        for there, back in (("cpu", "vulkan"), ("vulkan", "cpu"), ("vulkan", "vulkan")):
            a = self.run_model("-p", PROMPT, "-n", "5", "--kv-type", "f32", "--device", there, "--save-state", "d.state").json["tokens"]
            b = self.run_model("-n", "7", "--kv-type", "f32", "--device", back, "--load-state", "d.state").json["tokens"]
            self.assertEqual(a + b, whole, (there, back))

    def test_what_does_not_fit_is_said(self):
        self.run_model("-p", PROMPT, "-n", "4", "--save-state", "c.state")
        self.ridge("quantize", self.tiny, "q8.gguf", "Q8_0", "-q")
        for args, model, word, code in (
                ([], self.path("q8.gguf"), "another model", REJECTED), (["--kv-type", "q8_0"], None, "--kv-type", REJECTED),
                (["-c", "4"], None, "-c", REJECTED), (["--load-state", "none"], None, "'none'", FAILED),
                (["--load-state", "."], None, "directory", FAILED), (["--load-state", self.tiny], None, "RDGSTATE", REJECTED)):
            with self.subTest(args):
                self.assertIn(word, self.run_model("--load-state", "c.state", *args, "-n", "1", model=model, code=code).err)
        self.assertIn("no folder", self.run_model("-p", "a", "-n", "1", "--save-state", "none/x", code=FAILED).err)

    def test_cut_and_damaged_files(self):
        """Cut at every byte of the header, and where each part ends; every byte of the header changed."""
        self.run_model("-p", "a", "-n", "0", "--save-state", "whole.state")
        data = e2e.read(self.path("whole.state"))
        cuts = list(range(1, 129)) + [132, 200, 1000, len(data) - 9, len(data) - 8, len(data) - 1]
        for n in cuts if not e2e.SANITIZED else cuts[::5]:
            self.write("cut.state", data[:n])
            err = self.run_model("--load-state", "cut.state", "-n", "1", code=REJECTED).err
            self.assertIn("cut.state", err)
        for at in range(0, 128, 1 if not e2e.SANITIZED else 7):
            self.write("bad.state", data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1:])
            self.run_model("--load-state", "bad.state", "-n", "1", code=REJECTED)
        self.write("empty.state", b"")
        self.assertIn("empty", self.run_model("--load-state", "empty.state", "-n", "1", code=REJECTED).err)


class Shift(e2e.Case):
    def run_model(self, *args, **more):
        return self.ridge("run", self.tiny, "--temp", "0", "--ignore-eos", "--json", "--kv-type", "f32", *args, **more)

    def test_a_full_context_goes_on(self):
        """After each shift the next tokens are those of the shorter text, from the start."""
        r = self.run_model("-p", PROMPT, "-n", "60", "-c", "24", "--shift").json
        self.assertEqual((len(r["tokens"]), r["finish_reason"]), (60, "length"))
        everything = r["prompt_tokens"] + r["tokens"]
        self.assertEqual(r["n_dropped_tokens"], 11 * len(r["warnings"]))
        self.assertIn("the oldest 11 tokens behind the first 1 are dropped, the 12 after them evaluated again", r["warnings"][0])
        # 24 tokens fill the context; the 25th is evaluated behind BOS and the latest 12.
        after = everything[:1] + everything[12:25]
        again = self.run_model("--tokens", ",".join(map(str, after)), "-n", "8").json["tokens"]
        self.assertEqual(again, everything[25:33])

    def test_keep(self):
        r = self.run_model("-p", PROMPT, "-n", "30", "-c", "24", "--shift", "--keep", "6").json
        everything = r["prompt_tokens"] + r["tokens"]
        again = self.run_model("--tokens", ",".join(map(str, everything[:6] + everything[15:25])), "-n", "5").json["tokens"]
        self.assertEqual(again, everything[25:30])
        self.assertIn("--keep", self.run_model("-p", PROMPT, "-c", "24", "--shift", "--keep", "24", code=USAGE).err)

    def test_a_long_prompt(self):
        ids = list(range(300, 340))
        tokens = ["--tokens", ",".join(map(str, [1] + ids)), "-n", "3", "-c", "20"]
        err = self.run_model(*tokens, code=REJECTED).err
        self.assertIn("--shift", err)
        self.assertIn("-c", err)
        r = self.run_model(*tokens, "--shift").json
        self.assertEqual(r["prompt_tokens"], [1] + ids[-10:])
        self.assertEqual(r["n_dropped_tokens"], 30)
        self.assertIn("41 tokens", r["warnings"][0])
        self.assertEqual(r["tokens"], self.run_model("--tokens", ",".join(map(str, [1] + ids[-10:])), "-n", "3").json["tokens"])

    def test_a_state_that_fills_up(self):
        a = self.run_model("-p", PROMPT, "-n", "10", "-c", "20", "--save-state", "s.state").json
        everything = a["prompt_tokens"] + a["tokens"]
        r = self.run_model("--load-state", "s.state", "--tokens", "400,401,402,403,404,405", "-n", "3", "-c", "20", "--shift").json
        kept = everything[:1] + (everything + [400, 401, 402, 403, 404, 405])[-10:]
        again = self.run_model("--tokens", ",".join(map(str, kept)), "-n", "3").json["tokens"]
        self.assertEqual(r["tokens"], again)

    def test_without_it_the_text_ends_and_the_remedy_is_named(self):
        r = self.ridge("run", self.tiny, "-p", PROMPT, "-n", "60", "-c", "16", "--ignore-eos")
        self.assertIn("--shift", r.err)


if __name__ == "__main__":
    e2e.main()
