# Compiles the files that are named in the first argument's lines. The bytecode is not compared with
# its source when it is loaded: an image is never edited in place.
import concurrent.futures
import os
import py_compile
import sys


def compile_one(path):
    try:
        py_compile.compile(
            path, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )
    except (py_compile.PyCompileError, SyntaxError, ValueError):
        pass  # templates and files for other Pythons


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as names:
        paths = names.read().splitlines()
    with concurrent.futures.ProcessPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        list(pool.map(compile_one, paths, chunksize=32))
