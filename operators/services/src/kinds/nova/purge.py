"""Deletes rows of what was deleted so many days ago: from one database of a cell, and what the API's has of those servers.

    purge.py DAYS

Nova moves rows to shadow tables first, and deletes them there.
"""
import datetime
import sys

from nova import config, objects
from nova.cmd import manage

# As nova-manage documents them: rows were moved, and no row was old enough to be deleted.
MOVED = 1
NOTHING_DELETED = 3


def main():
    config.parse_args(["purge.py"])
    objects.register_all()
    now = datetime.datetime.now(datetime.timezone.utc)
    before = (now - datetime.timedelta(days=int(sys.argv[1]))).strftime("%Y-%m-%d")
    commands = manage.DbCommands()
    status = commands.archive_deleted_rows(before=before, until_complete=True, verbose=True)
    if status not in (0, MOVED):
        sys.exit(f"rows could not be moved to the shadow tables ({status})")
    status = commands.purge(before=before, verbose=True)
    if status not in (0, NOTHING_DELETED):
        sys.exit(f"rows of the shadow tables could not be deleted ({status})")


main()
