# Asks the packages of an image for their configuration options: writes what oslo-config-generator
# tells, and the options of the ways to log in, which services read without announcing them.
# Arguments: the service, the file for the options, the file for the logins.
import importlib.metadata
import json
import sys

from oslo_config import generator

LOGINS = ["password", "v3password", "v3applicationcredential", "v3token", "none"]

namespaces = []
for entry in importlib.metadata.entry_points(group="oslo.config.opts"):
    try:
        entry.load()
    except Exception as error:  # needs a package that this image does not have
        if entry.name.split(".")[0] == sys.argv[1]:
            raise
        print(f"left out {entry.name}: {error}", file=sys.stderr)
    else:
        namespaces.append(entry.name)

arguments = ["--format", "json", "--output-file", sys.argv[2]]
for namespace in sorted(set(namespaces)):
    arguments += ["--namespace", namespace]
generator.main(arguments)

logins = {}
try:
    from keystoneauth1 import loading
except ImportError:
    loading = None
for login in LOGINS if loading else []:
    try:
        options = loading.get_auth_plugin_conf_options(login)
    except Exception as error:
        print(f"left out {login}: {error}", file=sys.stderr)
        continue
    for option in options:
        logins[option.dest] = {"dest": option.dest, "secret": bool(option.secret)}
with open(sys.argv[3], "w", encoding="utf-8") as out:
    json.dump(sorted(logins.values(), key=lambda option: option["dest"]), out)
