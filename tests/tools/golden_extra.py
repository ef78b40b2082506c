#!/usr/bin/env python3
"""Makes tests/data/golden-extra: tiny random models for settings that tests/data/golden does not exercise.

Needs torch and transformers (made with 2.11.0 and 5.17.0). Usage: golden_extra.py OUT_DIR [NAME…]
Each folder: config.json, model.safetensors (bfloat16), expected.json, logits.npy: float32, eager attention. For an
encoder logits.npy holds the last hidden states and expected.json says "output": "hidden".
"""
import json
import os
import sys

import numpy as np
import torch
import transformers as t

COMMON = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
              max_position_embeddings=256, vocab_size=64, rms_norm_eps=1e-5, tie_word_embeddings=False,
              bos_token_id=1, eos_token_id=0, pad_token_id=None)


def rope(**kw):
    return dict(rope_parameters=kw)


LONG = [1.0, 1.3, 2.1, 4.0]
SHORT = [1.0, 1.0, 1.1, 1.25]
PHI3 = dict(COMMON, max_position_embeddings=128, original_max_position_embeddings=32, sliding_window=None,
            **rope(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.5, long_factor=LONG, short_factor=SHORT,
                   original_max_position_embeddings=32))

# name: (config, model class, tokens, context of the session, scale of the weights)
MODELS = {
    "llama-linear": (t.LlamaConfig(**COMMON, **rope(rope_type="linear", rope_theta=10000.0, factor=4.0)), t.LlamaForCausalLM, 48, 256, 1),
    "qwen2-yarn": (t.Qwen2Config(**COMMON, **rope(rope_type="yarn", rope_theta=10000.0, factor=4.0,
                                                  original_max_position_embeddings=64)), t.Qwen2ForCausalLM, 48, 256, 1),
    "qwen3-window": (t.Qwen3Config(**dict(COMMON, num_hidden_layers=3), head_dim=24, use_sliding_window=True, sliding_window=12,
                                   max_window_layers=1), t.Qwen3ForCausalLM, 48, 256, 1),
    "starcoder2-window": (t.Starcoder2Config(**{k: v for k, v in COMMON.items() if k != "rms_norm_eps"}, sliding_window=12),
                          t.Starcoder2ForCausalLM, 48, 256, 1),
    "phi3-long": (t.Phi3Config(**PHI3), t.Phi3ForCausalLM, 48, 128, 1),
    "phi3-short": (t.Phi3Config(**dict(PHI3, sliding_window=10)), t.Phi3ForCausalLM, 24, 32, 1),
    "stablelm-parallel": (t.StableLmConfig(**{k: v for k, v in COMMON.items() if k != "rms_norm_eps"}, use_parallel_residual=True,
                                           qk_layernorm=True), t.StableLmForCausalLM, 48, 256, 1),
    "gemma2-scale": (t.Gemma2Config(**dict(COMMON, tie_word_embeddings=True), head_dim=24, query_pre_attn_scalar=50, sliding_window=12),
                     t.Gemma2ForCausalLM, 48, 256, 1),
    "gemma3-linear": (t.Gemma3TextConfig(**dict(COMMON, tie_word_embeddings=True, num_hidden_layers=4), head_dim=24, query_pre_attn_scalar=50,
                                         sliding_window=12, layer_types=["sliding_attention", "full_attention"] * 2,
                                         rope_parameters={"full_attention": dict(rope_type="linear", rope_theta=1000000.0, factor=8.0),
                                                          "sliding_attention": dict(rope_type="default", rope_theta=5000.0)}),
                      t.Gemma3ForCausalLM, 48, 256, 1),
    "gptoss-clamp": (t.GptOssConfig(**dict(COMMON, intermediate_size=32), head_dim=24, num_local_experts=4, num_experts_per_tok=2,
                                    sliding_window=12, **rope(rope_type="yarn", rope_theta=150000.0, factor=4.0, truncate=True,
                                                              original_max_position_embeddings=64)), t.GptOssForCausalLM, 48, 256, 6),
    "gpt2-plain": (t.GPT2Config(n_embd=32, n_layer=2, n_head=2, n_positions=256, vocab_size=64, bos_token_id=1, eos_token_id=0),
                   t.GPT2LMHeadModel, 48, 256, 1),
    "bert": (t.BertConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, vocab_size=64,
                          max_position_embeddings=64), t.BertModel, 48, 64, 1),
}


def randomise(model, scale, gen):
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=gen)
            norm = "norm" in name.lower() or ".ln_" in name or "ln_f" in name
            if norm and name.endswith("weight"):
                base = 0.0 if "gemma" in type(model).__name__.lower() else 1.0
                p.copy_(base + 0.2 * noise)
            elif p.dim() < 2 or "bias" in name:
                p.copy_(0.2 * noise)
            elif "embed" in name or "wte" in name or "wpe" in name or "embeddings" in name:
                p.copy_(0.5 * noise)
            else:
                s = scale if "experts" in name else 1.0
                p.copy_(s * 1.2 * noise / p.shape[-1] ** 0.5)
            p.copy_(p.to(torch.bfloat16).float())


def make(out, name):
    config, cls, n_tokens, n_ctx, scale = MODELS[name]
    config._attn_implementation = "eager"
    gen = torch.Generator().manual_seed(sum(map(ord, name)))
    model = cls(config).eval()
    randomise(model, scale, gen)
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    ids = torch.randint(2, config.vocab_size, (1, n_tokens), generator=gen)
    ids[0, 0] = 1
    with torch.no_grad():
        r = model(input_ids=ids, use_cache=False) if cls is not t.BertModel else model(input_ids=ids)
        rows = r.last_hidden_state[0] if cls is t.BertModel else r.logits[0]
        expected = dict(token_ids=ids[0].tolist(), n_ctx=n_ctx, output="hidden" if cls is t.BertModel else "logits")
        if cls is not t.BertModel:
            prompt = ids[:, :8]
            seq = prompt
            for _ in range(16):
                seq = torch.cat([seq, model(input_ids=seq, use_cache=False).logits[:, -1:].argmax(-1)], 1)
            expected["greedy_prompt"] = prompt[0].tolist()
            expected["greedy_tokens"] = seq[0, 8:].tolist()
    np.save(os.path.join(folder, "logits.npy"), rows.numpy().astype(np.float32))
    model.to(torch.bfloat16).save_pretrained(folder)
    junk = os.path.join(folder, "generation_config.json")
    if os.path.exists(junk):
        os.remove(junk)
    json.dump(expected, open(os.path.join(folder, "expected.json"), "w"))
    print(name, rows.shape, float(rows.abs().max()))


if __name__ == "__main__":
    for n in sys.argv[2:] or MODELS:
        make(sys.argv[1], n)
