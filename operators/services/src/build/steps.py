"""Runs commands one after the other and pays for Python's imports once.

    steps.py [--patience SECONDS] [--wait-for FILE] -- [@VARIABLE=OTHER] COMMAND ARGUMENT... -- ...

Each command is a console script of this image, or a Python file by its path. Its module is loaded
while the database may still be on its way; then each command runs in a fork, with a state of its
own as if it were started anew. @VARIABLE=OTHER gives the variable the value of another, for that
command alone. The exit status is the number of the first command that failed.

What the commands say goes through this process, which hides the secrets of its environment: the end
of it becomes the message of the pod's status, which more people may read than logs and Secrets.
"""
import base64
import importlib.metadata
import json
import os
import re
import runpy
import signal
import sys
import time
import traceback
import urllib.parse

SECRET = re.compile("PASS|SECRET|TOKEN|KEY|CONNECTION|TRANSPORT_URL")


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


# The oldest servers that the releases are run with.
LEAST = {"MariaDB": (10, 6), "MySQL": (8, 0)}


def unfit(version, largest, free):
    """Why nothing should be changed in a database, or nothing. A step may copy a table."""
    name = "MariaDB" if "mariadb" in version.lower() else "MySQL"
    # Servers behind which old clients are expected put another number before their own.
    number = tuple(map(int, re.findall("[0-9]+", version.removeprefix("5.5.5-"))[:2]))
    if number < LEAST[name]:
        least = ".".join(map(str, LEAST[name]))
        return f"{name} {version} is older than {least}: update the server first"
    if free is not None and free < largest:
        return f"{free >> 20} MiB are free and the largest table has {largest >> 20}: give the server more room first"


def examine(url):
    import sqlalchemy

    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.pool.NullPool)
    if engine.dialect.name != "mysql":
        return None
    with engine.connect() as connection:
        ask = lambda question: connection.exec_driver_sql(question).scalar()
        version = ask("SELECT VERSION()")
        largest = ask(
            "SELECT COALESCE(MAX(data_length + index_length), 0) FROM information_schema.tables"
            " WHERE table_schema = DATABASE()"
        )
        try:
            free = ask(
                "SELECT available * 1024 FROM information_schema.disks"
                " WHERE LEFT(@@datadir, LENGTH(path)) = path ORDER BY LENGTH(path) DESC LIMIT 1"
            )
        except Exception:
            # Only a server with the plugin tells, and only to those who may ask.
            free = None
    return unfit(version, int(largest), None if free is None else int(free))


def run(main, variables, command):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for name, other in variables.items():
                os.environ[name] = os.environ[other]
            sys.argv = list(command)
            # Otherwise what is said last, the failure, would come before what was printed earlier.
            sys.stdout.reconfigure(line_buffering=True)
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


# Shortest part of an encoded secret that is hidden: a shorter one is in too many words.
REST = 6


def forms(secret):
    """As programs may repeat it. The operator's own mask knows the same forms: both pass the same examples."""
    plain = secret.encode()
    quoted = json.dumps(secret, ensure_ascii=False)[1:-1]
    address = urllib.parse.quote(secret, safe="")
    return {
        secret,
        secret.replace("\\", "\\\\").replace("'", "''"),
        quoted,
        json.dumps(quoted, ensure_ascii=False)[1:-1],
        json.dumps(secret)[1:-1],
        *(literal(secret, quote, in_bytes) for quote in "'\"" for in_bytes in (False, True)),
        address,
        re.sub("%..", lambda found: found[0].lower(), address),
        urllib.parse.quote_plus(secret),
        ",".join(map(str, plain)),
        ", ".join(map(str, plain)),
        plain.hex(),
        plain.hex().upper(),
        *coded(plain),
    }


def literal(secret, quote, in_bytes):
    """Inside the quotes of Python's repr, of text or of bytes."""
    named = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", quote: "\\" + quote}

    def one(character):
        if character in named:
            return named[character]
        if character < " " or character == "\x7f" or in_bytes and character > "\x7f":
            return "".join(f"\\x{byte:02x}" for byte in character.encode())
        return character

    return "".join(map(one, secret))


def coded(plain):
    """In Base64, alone and after one or two other bytes, without what depends on the neighbours."""
    for before in range(3):
        whole = (before + len(plain)) % 3 == 0
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            padded = encode(bytes(before) + plain).decode()
            text = padded.rstrip("=")
            inner = text[(0, 2, 3)[before] : len(text) - (not whole)]
            if len(inner) >= REST:
                yield inner
            if before == 0:
                yield padded


def mask(environment):
    """Hides the values of variables that hold secrets, and the passwords of addresses."""
    secrets = set()
    for name, value in environment.items():
        if SECRET.search(name.upper()):
            secrets.add(value)
            found = re.search("//[^/@]*?:([^/@]+)@", value)
            if found:
                secrets.add(found[1])
                secrets.add(urllib.parse.unquote(found[1]))
    # A key may be printed line by line.
    lines = {line.strip() for secret in secrets for line in secret.splitlines()}
    secrets = {secret for secret in secrets | lines if len(secret) >= 6}
    hidden = sorted({form for secret in secrets for form in forms(secret)}, key=len, reverse=True)
    if not hidden:
        return lambda text: text
    pattern = re.compile("|".join(map(re.escape, hidden)).encode())
    return lambda text: pattern.sub(b"***", text)


def relay(source, hide):
    """Line by line: a secret is not cut in two."""
    rest = b""
    while True:
        part = os.read(source, 1 << 16)
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            os.write(1, hide(line) + b"\n")
        if not part:
            os.write(1, hide(rest))
            return


def main():
    source, target = os.pipe()
    worker = os.fork()
    if worker == 0:
        os.close(source)
        os.dup2(target, 1)
        os.dup2(target, 2)
        os.close(target)
        work()
        sys.exit(0)
    os.close(target)
    # As process 1 a signal without a handler would be ignored.
    signal.signal(signal.SIGTERM, lambda *_: os.kill(worker, signal.SIGTERM))
    relay(source, mask(os.environ))
    status = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    sys.exit(status if status >= 0 else 128 - status)


def work():
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
            trouble = examine(url)
            if trouble:
                sys.exit(f"database: {trouble}")
    for number, (variables, command) in enumerate(commands, start=1):
        if run(mains[command[0]], variables, command) != 0:
            sys.exit(number)


main()
