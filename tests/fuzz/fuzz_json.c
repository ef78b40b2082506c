/* JSON as config.json brings it: parsing under limits and typed access. */
#include "fuzz.h"
#include "format/json.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const rdg_json_limits limits = {.max_bytes = 1 << 20, .max_values = 1 << 16, .max_depth = 16};
    const char *key;
    json_t *root, *member;
    rdg_error e = {0};
    rdg_err err = rdg_json_parse((const char *)data, n, "config.json", &limits, &root, &e);
    FUZZ_CHECK((err != 0) == (root == NULL) && err != RDG_E_NOMEM && err != RDG_E_INTERNAL);
    if (err) {
        FUZZ_CHECK(e.code == err && e.message[0] && strlen(e.message) < sizeof e.message);
        return 0;
    }
    json_object_foreach(root, key, member)
    {
        int64_t i = 1;
        double d = 1;
        bool b = false;
        const char *s = "";
        const json_t *v;
        if (!rdg_json_int(root, key, 0, 1000000, &i, &e)) FUZZ_CHECK(i >= 0 && i <= 1000000);
        if (!rdg_json_real(root, key, &d, &e)) FUZZ_CHECK(d - d == 0);
        rdg_json_bool(root, key, &b, &e);
        if (!rdg_json_str(root, key, &s, &e)) fuzz_touch(s, strlen(s) + 1);
        rdg_json_array(root, key, &v, &e);
        rdg_json_object(root, key, &v, &e);
        FUZZ_CHECK(strlen(e.message) < sizeof e.message);
    }
    json_decref(root);
    return 0;
}
