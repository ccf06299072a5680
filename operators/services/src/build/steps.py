"""Runs commands one after the other and pays for Python's imports once.

    steps.py [--patience SECONDS] [--wait-for FILE] -- [@VARIABLE=OTHER] COMMAND ARGUMENT... -- ...

Each command is a console script of this image, or a Python file by its path. Its module is loaded
while the database may still be on its way; then each command runs in a fork, with a state of its
own as if it were started anew. @VARIABLE=OTHER gives the variable the value of another, for that
command alone. The exit status is the number of the first command that failed.
"""
import importlib.metadata
import os
import runpy
import signal
import sys
import time
import traceback


def parse(words):
    commands, options = [], []
    for word in words:
        if word == "--":
            commands.append([])
        else:
            (commands[-1] if commands else options).append(word)
    return dict(zip(options[::2], options[1::2])), commands


def split(command):
    """The variables before a command, and the command itself."""
    variables = {}
    while command[0].startswith("@"):
        name, other = command[0][1:].split("=", 1)
        variables[name], command = other, command[1:]
    return variables, command


def load(name):
    if name.startswith("/"):
        return lambda: runpy.run_path(name, run_name="__main__") and None
    (script,) = importlib.metadata.entry_points(group="console_scripts", name=name)
    return script.load()


def wait(what, there, patience):
    """Bounded: the container is started again, with growing pauses."""
    end = time.monotonic() + patience
    while True:
        trouble = there()
        if trouble is None:
            return
        if time.monotonic() > end:
            sys.exit(f"{what}: {trouble}")
        time.sleep(0.2)


def connects(url):
    import sqlalchemy

    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.pool.NullPool)

    def there():
        try:
            engine.connect().close()
        except Exception as error:
            return getattr(error, "orig", error)

    return there


def run(main, variables, command):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for name, other in variables.items():
                os.environ[name] = os.environ[other]
            sys.argv = list(command)
            status = main() or 0
        except SystemExit as end:
            status = end.code or 0
            if isinstance(status, str):
                print(status, file=sys.stderr)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1 if status else 0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main():
    # As process 1 a signal without a handler would be ignored.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options, commands = parse(sys.argv[1:])
    commands = [split(command) for command in commands]
    mains = {command[0]: load(command[0]) for _, command in commands}
    patience = float(options.get("--patience", 10))
    path = options.get("--wait-for")
    if path:
        wait(path, lambda: None if os.path.exists(path) else "is not there", 120)
    for name, url in sorted(os.environ.items()):
        if name.startswith("OS_") and name.endswith("__CONNECTION"):
            wait("database", connects(url), patience)
    for number, (variables, command) in enumerate(commands, start=1):
        if run(mains[command[0]], variables, command) != 0:
            sys.exit(number)


main()
