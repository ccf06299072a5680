import importlib, sys

for name in sys.argv[1:]:
    sys.argv = [name]
    try:
        importlib.import_module(name)
    except (ImportError, SyntaxError, AttributeError):
        raise
    except BaseException as problem:
        print(f"{name}: {problem!r}")
