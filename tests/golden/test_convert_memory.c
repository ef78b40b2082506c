/* Peak memory of converting a model of about 600 MB: at most its largest tensor and a constant, whatever the
 * type. The safetensors file is sparse zeros, which reads like any other. Each conversion runs in a child
 * whose resident set the kernel reports. */
#include "base/mem.h"
#include "golden.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { VOCAB = 100000, EMBD = 1024, FF = 8192, LAYERS = 4 };
static const double constant_bytes = 64e6, largest_bytes = 2.0 * VOCAB * EMBD;

typedef struct header {
    rdg_buf text;
    uint64_t end; /* of the data so far */
} header;

static void add(header *h, const char *name, int64_t d0, int64_t d1)
{
    uint64_t bytes = (uint64_t)d0 * (uint64_t)(d1 ? d1 : 1) * 2;
    rdg_buf_printf(&h->text, "%s\"%s\": {\"dtype\": \"BF16\", \"shape\": [%lld", h->text.len ? ", " : "",
                   name, (long long)d0);
    if (d1) rdg_buf_printf(&h->text, ", %lld", (long long)d1);
    rdg_buf_printf(&h->text, "], \"data_offsets\": [%llu, %llu]}", (unsigned long long)h->end,
                   (unsigned long long)(h->end + bytes));
    h->end += bytes;
}

/* Header and a hole. */
static int write_model(const char *path, uint64_t *bytes)
{
    static const struct {
        const char *name;
        int64_t d0, d1;
    } block[] = {{"input_layernorm", EMBD, 0},     {"post_attention_layernorm", EMBD, 0},
                 {"self_attn.q_proj", EMBD, EMBD}, {"self_attn.k_proj", EMBD, EMBD},
                 {"self_attn.v_proj", EMBD, EMBD}, {"self_attn.o_proj", EMBD, EMBD},
                 {"mlp.gate_proj", FF, EMBD},      {"mlp.up_proj", FF, EMBD},
                 {"mlp.down_proj", EMBD, FF}};
    header h = {0};
    char name[128];
    add(&h, "model.embed_tokens.weight", VOCAB, EMBD);
    add(&h, "lm_head.weight", VOCAB, EMBD);
    add(&h, "model.norm.weight", EMBD, 0);
    for (int i = 0; i < LAYERS; i++) {
        for (size_t k = 0; k < sizeof block / sizeof *block; k++) {
            snprintf(name, sizeof name, "model.layers.%d.%s.weight", i, block[k].name);
            add(&h, name, block[k].d0, block[k].d1);
        }
    }
    size_t n = (h.text.len + 2 + 7) / 8 * 8;
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)(n >> 8 * i);
    FILE *f = fopen(path, "wb");
    if (!f) return 0;
    fwrite(length, 1, 8, f);
    fprintf(f, "{%s}%*s", h.text.data, (int)(n - h.text.len - 2), "");
    int ok = fflush(f) == 0 && ftruncate(fileno(f), (off_t)(8 + n + h.end)) == 0;
    fclose(f);
    *bytes = 8 + n + h.end;
    rdg_buf_finish(&h.text);
    return ok;
}

static int convert_in_child(const golden_temp *t, int type, const char *type_name)
{
    struct rusage usage;
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        rdg_error e = {0};
        rdg_convert_params p = {.type = type, .n_threads = 2};
        rdg_err err = rdg_convert(t->dir, t->file, &p, NULL, &e);
        if (err) printf("%s: %s\n", rdg_err_name(err), e.message);
        fflush(stdout); /* the parent's is empty: see main */
        _exit(err ? 1 : 0);
    }
    if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0) return 0;
    double peak = (double)usage.ru_maxrss * 1024, allowed = constant_bytes;
    printf("%-6s peak %.0f MB, allowed %.0f MB: %s\n", type_name, peak / 1e6, allowed / 1e6,
           peak <= allowed ? "ok" : "FAIL");
    remove(t->file);
    return peak <= allowed;
}

int main(void)
{
    golden_temp t;
    uint64_t bytes = 0;
    char path[300];
    int ok = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!golden_temp_make(&t)) return 1;
    snprintf(path, sizeof path, "%.255s/config.json", t.dir);
    FILE *f = fopen(path, "wb");
    if (f) {
        fprintf(f,
                "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": %d, \"intermediate_size\": %d, "
                "\"num_hidden_layers\": %d, "
                "\"num_attention_heads\": 8, \"max_position_embeddings\": 128, \"rms_norm_eps\": 1e-5, "
                "\"vocab_size\": %d}\n",
                EMBD, FF, LAYERS, VOCAB);
        fclose(f);
    }
    snprintf(path, sizeof path, "%.255s/model.safetensors", t.dir);
    if (write_model(path, &bytes)) {
        printf("source %.0f MB, largest tensor %.0f MB\n", (double)bytes / 1e6, largest_bytes / 1e6);
        ok = convert_in_child(&t, -1, "auto") & convert_in_child(&t, RDG_RECIPE_F16, "F16") &
             convert_in_child(&t, RDG_RECIPE_Q8_0, "Q8_0");
    }
    remove(path);
    snprintf(path, sizeof path, "%.255s/config.json", t.dir);
    remove(path);
    golden_temp_remove(&t);
    return !ok;
}
