#!/usr/bin/env python3
"""Writes an assembly file that embeds compiled kernels, and a C file with their table.
Usage: embed_modules.py OUT.S OUT.c PREFIX NAME=FILE..."""
import os
import sys

asm_path, c_path, prefix = sys.argv[1:4]
pairs = [arg.split("=", 1) for arg in sys.argv[4:]]

with open(asm_path, "w") as asm:
    asm.write('#if defined(__APPLE__)\n.section __TEXT,__const\n#define NAME(x) _##x\n#else\n.section .rodata\n'
              '#define NAME(x) x\n#endif\n')
    for name, path in pairs:
        symbol = f"{prefix}_{name}"
        asm.write(f'.balign 16\n.globl NAME({symbol})\n.globl NAME({symbol}_end)\nNAME({symbol}):\n'
                  f'.incbin "{os.path.abspath(path)}"\nNAME({symbol}_end):\n.byte 0\n')
    asm.write('#if defined(__linux__)\n.section .note.GNU-stack,"",%progbits\n#endif\n')

with open(c_path, "w") as c:
    c.write('#include "ops/gpu.h"\n\n#include <string.h>\n\n')
    for name, _ in pairs:
        c.write(f"extern const unsigned char {prefix}_{name}[], {prefix}_{name}_end[];\n")
    c.write("\nstatic const rdg_gpu_module modules[] = {\n")
    for name, _ in pairs:
        c.write(f'    {{"{name}", {prefix}_{name}, {prefix}_{name}_end}},\n')
    c.write("    {NULL, NULL, NULL},\n};\n\n"
            "int rdg_gpu_module_count(void)\n{\n    return (int)(sizeof modules / sizeof modules[0]) - 1;\n}\n\n"
            "const rdg_gpu_module *rdg_gpu_module_find(const char *name)\n{\n"
            "    for (const rdg_gpu_module *m = modules; m->name; m++)\n"
            "        if (!strcmp(m->name, name)) return m;\n    return NULL;\n}\n")
