"""Programs that use Vulkan, under its validation layer with synchronisation checks: the layer must have nothing to say.

Usage: test_validation.py HAZARD_PROGRAM PROGRAM [ARGUMENT]... [-- PROGRAM [ARGUMENT]...]...

That the layer listens at all is shown first: HAZARD_PROGRAM records a copy without the barrier that it needs, and must
be caught. Exit code 77 (skipped) where there is no layer or no device.
"""
import os
import subprocess
import sys
import tempfile

LAYER = "VK_LAYER_KHRONOS_validation"
SETTINGS = """khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.report_flags = error,warn,perf
khronos_validation.log_filename = {log}
khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
"""


def run(folder, command):
    """Exit code, output, and what the layer wrote."""
    log = os.path.join(folder, "messages.txt")
    if os.path.exists(log):
        os.remove(log)
    with open(os.path.join(folder, "vk_layer_settings.txt"), "w") as f:
        f.write(SETTINGS.format(log=log))
    env = dict(os.environ, VK_INSTANCE_LAYERS=LAYER, VK_LAYER_SETTINGS_PATH=folder)
    p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
    messages = None  # no file: the layer was not loaded
    if os.path.exists(log):
        with open(log, errors="replace") as f:
            messages = f.read()
    return p.returncode, p.stdout.decode("utf-8", "replace"), messages


def commands(arguments):
    out = [[]]
    for a in arguments:
        if a == "--":
            out.append([])
        else:
            out[-1].append(a)
    return [c for c in out if c]


def main():
    hazard, failures = sys.argv[1], 0
    with tempfile.TemporaryDirectory(prefix="ridge-validation-") as folder:
        code, text, messages = run(folder, [hazard, "planted"])
        if code == 77 or messages is None:
            print(f"skipped: no device, or {LAYER} is not installed (package vulkan-validationlayers)\n{text}")
            return 77
        if "SYNC-HAZARD-READ-AFTER-WRITE" not in messages:
            print(f"FAIL: the layer did not see the missing barrier\n{text}{messages}")
            failures += 1
        for command in [[hazard, "clean"]] + commands(sys.argv[2:]):
            code, text, messages = run(folder, command)
            ok = code == 0 and messages == ""
            print(f"{'ok  ' if ok else 'FAIL'} {' '.join(os.path.basename(c) for c in command)}")
            if not ok:
                print(f"exit code {code}\n{text[-3000:]}\nthe layer: {'not loaded' if messages is None else messages[:6000]}")
                failures += 1
    print(f"{failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
