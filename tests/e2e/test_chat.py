"""template and chat: a template in, the text a model sees out, and a conversation through a pipe."""
import json
import shutil

import e2e
from e2e import REJECTED, TINY, USAGE

CHATML = (b"{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
          b"{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
MESSAGES = {"messages": [{"role": "user", "content": "Grüße <|im_end|>"}], "add_generation_prompt": True}
RENDERED = "<|im_start|>user\nGrüße <|im_end|><|im_end|>\n<|im_start|>assistant\n"


class Chat(e2e.Case):
    """self.model is ridge-tiny with a chat template of its own."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        shutil.copytree(TINY, cls.path("own"))
        config = json.loads(e2e.read(cls.path("own/tokenizer_config.json")))
        config["chat_template"] = CHATML.decode()
        cls.write("own/tokenizer_config.json", json.dumps(config).encode())
        cls.model = cls.path("own.gguf")
        e2e.subprocess.run([e2e.RIDGE, "convert", cls.path("own"), "-o", cls.model, "-q"], check=True,
                           stdout=e2e.subprocess.DEVNULL)


class Template(Chat):
    def setUp(self):
        self.write("chatml.jinja", CHATML)
        self.write("m.json", json.dumps(MESSAGES).encode())

    def test_a_file_renders_as_it_says(self):
        args = ["template", "chatml.jinja", "--messages", "m.json"]
        self.assertEqual(self.ridge(*args).out, RENDERED)
        self.assertEqual(self.ridge(*args, "--bos", "<s>").out, "<s>" + RENDERED)
        self.assertEqual(self.ridge(*args, "--json").json["text"], RENDERED)
        self.assertEqual(self.ridge(*args[:-1], "-", stdin=json.dumps(MESSAGES).encode()).out, RENDERED)

    def test_the_time_is_what_now_says(self):
        self.write("time.jinja", b"{{ strftime_now('%Y-%m-%d %H:%M:%S') }} {{ eos_token }}")
        args = ["template", "time.jinja", "--messages", "m.json"]
        self.assertEqual(self.ridge(*args, "--now", "2026-02-03 04:05:06", "--eos", "E").out, "2026-02-03 04:05:06 E")
        self.assertRegex(self.ridge(*args).out, r"^20\d\d-")
        for wrong in ("2026-02-30 04:05:06", "2026-02-03", "2026-02-03 24:05:06", "2026-02-03 04:05:6 "):
            with self.subTest(wrong):
                self.assertIn(wrong, self.ridge(*args, "--now", wrong, code=USAGE).err)

    def test_a_model_brings_its_own(self):
        """Template and token texts of a GGUF file; ridge-tiny itself has no template."""
        self.assertIn("chat_template", self.ridge("template", self.tiny, "--messages", "m.json", code=REJECTED).err)
        self.assertEqual(self.ridge("template", self.model, "--messages", "m.json").out, "<|begin_of_text|>" + RENDERED)

    def test_what_is_wrong_is_said(self):
        self.ridge("template", "chatml.jinja", code=USAGE)
        self.assertIn("none.jinja", self.ridge("template", "none.jinja", "--messages", "m.json", code=e2e.FAILED).err)
        self.write("broken.jinja", b"\n{% for %}")
        self.assertIn("2", self.ridge("template", "broken.jinja", "--messages", "m.json", code=REJECTED).err)
        self.write("half.json", b'{"messages": [')
        self.ridge("template", "chatml.jinja", "--messages", "half.json", code=REJECTED)


if __name__ == "__main__":
    e2e.main()
