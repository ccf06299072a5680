# Compiles the files that are named in the first argument's lines. The bytecode is not compared with
# its source when it is loaded: an image is never edited in place.
import multiprocessing
import py_compile
import sys

# What a process compiled before decides which constants of the next file are shared. So each process
# has a fixed share of the files, in a fixed order: the same files give the same bytecode everywhere.
SHARES = 4


def compile_all(paths):
    for path in paths:
        try:
            py_compile.compile(
                path, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
            )
        except (py_compile.PyCompileError, SyntaxError, ValueError):
            pass  # templates and files for other Pythons


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as names:
        paths = sorted(names.read().splitlines())
    workers = [
        multiprocessing.Process(target=compile_all, args=(paths[share::SHARES],)) for share in range(SHARES)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sys.exit(max(abs(worker.exitcode) for worker in workers))
