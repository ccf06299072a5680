"""What `nova-status upgrade check` of the new version finds in the databases of the old one.

A failure ends the upgrade before anything has changed; a warning is printed. Checks that ask other
services are left out, because the steps log in nowhere: those services have conditions of their own.
"""
import sys

from oslo_upgradecheck.upgradecheck import Code

from nova import config, objects
from nova.cmd import status

ASK_OTHERS = ("_check_placement", "_check_cinder")


def checks(commands):
    for name, check in commands._upgrade_checks:
        function, options = check if isinstance(check, tuple) else (check, {})
        if function.__name__ not in ASK_OTHERS:
            yield name, lambda: function(commands, **options)


def main():
    config.parse_args(["checks.py"])
    objects.register_all()
    failed = []
    for name, check in checks(status.UpgradeCommands()):
        result = check()
        details = " ".join((result.details or "").split())
        print(f"{name}: {result.code.name} {details}".rstrip())
        if result.code == Code.FAILURE:
            failed.append(f"{name}: {details}")
    if failed:
        sys.exit("nova-status upgrade check: " + "; ".join(failed))


main()
