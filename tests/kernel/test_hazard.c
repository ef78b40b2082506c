/* A command list with a mistake that only a validation layer can see: a copy reads what a fill wrote, without
 * a barrier between them. test_validation.py shows with it that the layer is there and speaks up. With
 * "clean" the barrier is in place. Exit code 77: no device. Usage: test_hazard clean|planted */
#include "device/device.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    rdg_device *d = NULL;
    rdg_buffer *a = NULL, *b = NULL;
    rdg_list *l = NULL;
    rdg_event done;
    rdg_error e = {0};
    if (argc < 2) return 2;
    bool planted = !strcmp(argv[1], "planted");
    rdg_err rc = rdg_device_open("vulkan", NULL, &d, &e);
    if (rc) {
        printf("skipped: %s\n", e.message);
        return rc == RDG_E_NOT_FOUND ? 77 : 1;
    }
    rc = rdg_buffer_create(d, RDG_MEMORY_DEVICE, 4096, "a", &a, &e);
    if (!rc) rc = rdg_buffer_create(d, RDG_MEMORY_READBACK, 4096, "b", &b, &e);
    if (!rc) rc = rdg_list_create(d, 0, 0, "hazard", &l, &e);
    if (!rc) {
        rdg_list_fill(l, a, 0, 4096, 7);
        if (!planted) rdg_list_barrier(l);
        rdg_list_copy(l, b, 0, a, 0, 4096);
        rc = rdg_list_finish(l, &e);
    }
    if (!rc) rc = rdg_submit(d, l, NULL, 0, &done, &e);
    if (!rc) rc = rdg_event_wait(d, done, -1, &e);
    rdg_list_destroy(l);
    rdg_buffer_destroy(b);
    rdg_buffer_destroy(a);
    rdg_device_close(d);
    if (rc) printf("%s: %s\n", rdg_err_name(rc), e.message);
    return rc != RDG_OK;
}
