"""The example program: the library through its public headers does what the command does."""
import os
import subprocess

import e2e


class Example(e2e.Case):
    def generate(self, *args):
        return subprocess.run([os.environ["RIDGE_EXAMPLE"], *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_it_continues_a_prompt_as_ridge_run_does(self):
        p = self.generate(self.tiny, "Once upon a time", "20")
        self.assertEqual((p.returncode, p.stderr), (0, b""))
        self.assertEqual(p.stdout.decode(), self.ridge("run", self.tiny, "-p", "Once upon a time", "-n", "20", "--temp", "0").out)

    def test_it_says_what_is_wrong(self):
        self.assertEqual(self.generate().returncode, 2)
        p = self.generate("missing.gguf", "a")
        self.assertEqual(p.returncode, 1)
        self.assertIn(b"missing.gguf", p.stderr)
        p = self.generate(os.path.join(e2e.DATA, "tokenizer", "gpt-2.gguf"), "a")
        self.assertEqual(p.returncode, 1)
        self.assertIn(b"generate: ", p.stderr)


if __name__ == "__main__":
    e2e.main()
