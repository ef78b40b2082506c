/* model.safetensors.index.json: the input is the index of a folder that holds two shards and a third file
 * that is none; another shard lies outside. A success must be what the input says, read here by itself. */
#include "fuzz.h"
#include "base/file.h"
#include "format/json.h"
#include "format/safetensors.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folder lives as long as the program. */
static struct {
    char top[64], folder[80]; /* the folder lies in top, beside the file that is outside */
    int index;                /* the index file, open for writing */
} place;

static const char *const shards[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};

static void path_in(char out[160], const char *folder, const char *name)
{
    snprintf(out, 160, "%s/%s", folder, name);
}

static void write_shard(const char *folder, const char *name, const char *header, size_t data_bytes)
{
    char path[160];
    const unsigned char zeros[16] = {0};
    uint64_t n = strlen(header);
    path_in(path, folder, name);
    FILE *f = fopen(path, "wb");
    FUZZ_CHECK(f && fwrite(&n, 1, sizeof n, f) == sizeof n && fwrite(header, 1, n, f) == n);
    FUZZ_CHECK(fwrite(zeros, 1, data_bytes, f) == data_bytes && fclose(f) == 0);
}

static void remove_folder(void)
{
    char path[160];
    const char *const names[] = {shards[0], shards[1], "text.safetensors", "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        path_in(path, place.folder, names[i]);
        unlink(path);
    }
    path_in(path, place.top, "outside.safetensors");
    unlink(path);
    rmdir(place.folder);
    rmdir(place.top);
}

static void make_folder(void)
{
    char path[160];
    const char *memory =
        access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* thousands of writes a second */
    snprintf(place.top, sizeof place.top, "%s/ridge-fuzz-XXXXXX", memory);
    FUZZ_CHECK(mkdtemp(place.top));
    path_in(path, place.top, "model");
    snprintf(place.folder, sizeof place.folder, "%s/model", place.top);
    FUZZ_CHECK(mkdir(place.folder, 0700) == 0);
    write_shard(place.folder, shards[0],
                "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}}",
                11);
    write_shard(place.folder, shards[1], "{\"c\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[0,2]}}",
                2);
    write_shard(place.folder, "text.safetensors", "no header", 0);
    write_shard(place.top, "outside.safetensors",
                "{\"d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    path_in(path, place.folder, "model.safetensors.index.json");
    place.index = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    FUZZ_CHECK(place.index >= 0);
    atexit(remove_folder);
}

static void warned(void *user, rdg_log_level level, const char *text)
{
    (void)level;
    FUZZ_CHECK(text[0]);
    ++*(int *)user;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    rdg_safetensors *s;
    rdg_error e = {0};
    int n_warnings = 0;
    uint64_t sum = 0;
    const rdg_log log = {.message = warned, .user = &n_warnings};
    if (!place.top[0]) make_folder();
    FUZZ_CHECK(ftruncate(place.index, 0) == 0 && pwrite(place.index, data, n, 0) == (ssize_t)n);
    rdg_err err = rdg_safetensors_open(place.folder, &log, &s, &e);
    FUZZ_CHECK((err != 0) == (s == NULL) && err != RDG_E_NOMEM && err != RDG_E_INTERNAL);
    if (err) {
        FUZZ_CHECK(e.code == err && e.message[0] && strlen(e.message) < sizeof e.message && n_warnings == 0);
        return 0;
    }
    FUZZ_CHECK(rdg_safetensors_n_files(s) <= 2 && n_warnings <= 1);
    for (int i = 0; i < rdg_safetensors_n_files(s); i++) {
        char path[160];
        const char *is = rdg_safetensors_file(s, i);
        path_in(path, place.folder, rdg_path_base(is));
        FUZZ_CHECK(!strcmp(path, is) &&
                   (!strcmp(rdg_path_base(is), shards[0]) || !strcmp(rdg_path_base(is), shards[1])));
    }
    json_t *root;
    FUZZ_CHECK(!rdg_json_parse((const char *)data, n, "index", NULL, &root, &e));
    const json_t *map = json_object_get(root, "weight_map");
    FUZZ_CHECK(json_object_size(map) == (size_t)rdg_safetensors_n(s));
    for (int64_t i = 0; i < rdg_safetensors_n(s); i++) {
        const rdg_safetensor *t = rdg_safetensors_at(s, i);
        const char *file = json_string_value(json_object_get(map, t->name));
        FUZZ_CHECK(rdg_safetensors_find(s, t->name) == t);
        FUZZ_CHECK(file && !strcmp(file, rdg_path_base(rdg_safetensors_file(s, t->file))));
        FUZZ_CHECK(!strcmp(rdg_path_base(rdg_safetensors_file(s, t->file)), shards[t->name[0] == 'c']));
        fuzz_touch(t->data, (size_t)t->bytes);
        sum += t->bytes;
    }
    FUZZ_CHECK(sum > 0 && sum == rdg_safetensors_bytes(s));
    json_decref(root);
    rdg_safetensors_close(s);
    return 0;
}
