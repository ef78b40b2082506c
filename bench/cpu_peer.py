#!/usr/bin/env python3
"""ridge against llama-cpp-python on the CPU: the same file, the same threads, in turns.

    python3 bench/cpu_peer.py --ridge build/ridge [--model FILE.gguf] [--threads N] [--rounds 5] [--json OUT]

Run it with a Python that has llama-cpp-python (and numpy), built from source on the machine that is measured. Without
--model a synthetic llama-1b in Q4_K_M is written with `ridge synth`. Each round runs one program after the other, the
order swapped from round to round, each in a fresh process; inside a process one prefill and a few decode steps warm up
before the timed ones. What is compared is the median over rounds; the spread is printed beside it.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time


def peer_child(model, threads, n_prefill, n_decode):
    """In a process of its own: prints one JSON line with both speeds."""
    import numpy
    from llama_cpp import Llama

    llm = Llama(model, n_ctx=n_prefill + n_decode + 64, n_batch=n_prefill, n_ubatch=n_prefill, n_threads=threads,
                n_threads_batch=threads, logits_all=False, verbose=False)
    ids = numpy.random.default_rng(1).integers(10, min(32000, llm.n_vocab()), n_prefill + n_decode).tolist()
    llm.eval(ids[:n_prefill])
    for t in ids[:4]:
        llm.eval([t])
    llm.reset()
    cpu, start = time.process_time(), time.perf_counter()
    llm.eval(ids[:n_prefill])
    prefill, prefill_cpu = time.perf_counter() - start, time.process_time() - cpu
    llm.reset()
    llm.eval(ids[:8])
    cpu, start = time.process_time(), time.perf_counter()
    for t in ids[n_prefill:]:
        llm.eval([t])
    decode, decode_cpu = time.perf_counter() - start, time.process_time() - cpu
    print(json.dumps({"prefill": n_prefill / prefill, "decode": n_decode / decode,
                      "prefill_per_cpu_second": n_prefill / prefill_cpu,
                      "decode_per_cpu_second": n_decode / decode_cpu}))


def run_peer(args, model):
    out = subprocess.run([sys.executable, os.path.abspath(__file__), "--peer-child", model, "--threads",
                          str(args.threads), "--prefill", str(args.prefill), "--decode", str(args.decode)],
                         capture_output=True, text=True)
    if out.returncode:
        sys.exit("the peer failed:\n" + out.stderr[-2000:])
    return json.loads(out.stdout.strip().splitlines()[-1])


def run_ridge(args, model):
    out = subprocess.run([args.ridge, "bench", model, "-t", str(args.threads), "-p", str(args.prefill), "-n",
                          str(args.decode), "-r", "1", "--json", "-q"], capture_output=True, text=True)
    if out.returncode:
        sys.exit("ridge failed:\n" + out.stderr[-2000:])
    j = json.loads(out.stdout)
    return {"prefill": j["prefill"][0]["tokens_per_second"]["median"],
            "decode": j["decode"]["tokens_per_second"]["median"],
            "fraction_of_read_bandwidth": j["decode"]["fraction_of_read_bandwidth"],
            "read_bytes_per_second": j["read_bytes_per_second"]}


def cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            return next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ridge", default="build/ridge")
    p.add_argument("--model")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--prefill", type=int, default=512)
    p.add_argument("--decode", type=int, default=128)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--json", help="write the result here as well")
    p.add_argument("--peer-child", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.peer_child:
        peer_child(args.peer_child, args.threads, args.prefill, args.decode)
        return
    with tempfile.TemporaryDirectory() as folder:
        model = args.model
        if not model:
            model = os.path.join(folder, "llama-1b-q4_k_m.gguf")
            subprocess.run([args.ridge, "synth", model, "--like", "llama-1b", "--type", "Q4_K_M", "-q"], check=True)
        runs = {"ridge": [], "peer": []}
        for i in range(args.rounds):
            order = [("ridge", run_ridge), ("peer", run_peer)]
            for name, run in order if i % 2 == 0 else order[::-1]:
                runs[name].append(run(args, model))
                last = runs[name][-1]
                print(f"round {i + 1} {name:5} prefill {last['prefill']:8.1f}  decode {last['decode']:7.2f} tokens/s",
                      file=sys.stderr)
    result = {"cpu": cpu_name(), "threads": args.threads, "date": time.strftime("%Y-%m-%d"),
              "load_average": os.getloadavg()[0], "rounds": args.rounds,
              "model": os.path.basename(model), "prefill_tokens": args.prefill, "decode_tokens": args.decode}
    for what in ("prefill", "decode"):
        ridge, peer = [r[what] for r in runs["ridge"]], [r[what] for r in runs["peer"]]
        result[what] = {"ridge": spread(ridge), "peer": spread(peer),
                        "ratio": statistics.median(ridge) / statistics.median(peer),
                        "ratio_by_round": spread([a / b for a, b in zip(ridge, peer)])}
    result["fraction_of_read_bandwidth"] = spread([r["fraction_of_read_bandwidth"] for r in runs["ridge"]])
    result["read_bytes_per_second"] = spread([r["read_bytes_per_second"] for r in runs["ridge"]])
    print(f"{result['cpu']}, {args.threads} threads, load {result['load_average']:.1f}, {result['date']}")
    for what in ("prefill", "decode"):
        r = result[what]
        print(f"  {what:8} ridge {r['ridge']['median']:8.1f} ({r['ridge']['min']:.1f} … {r['ridge']['max']:.1f})"
              f"   peer {r['peer']['median']:8.1f} ({r['peer']['min']:.1f} … {r['peer']['max']:.1f}) tokens/s"
              f"   ratio {r['ratio']:.2f}")
    f = result["fraction_of_read_bandwidth"]
    print(f"  decode reads at {100 * f['median']:.0f} % ({100 * f['min']:.0f} … {100 * f['max']:.0f}) of the read "
          f"bandwidth measured in the same run ({result['read_bytes_per_second']['median'] / 1e9:.1f} GB/s)")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(result, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
