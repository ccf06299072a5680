"""Asks Cinder whether it can be upgraded.

    check.py upgrade check

As `cinder-status upgrade check`, but a warning, which is printed, stops nothing.
"""
import sys

from cinder.cmd import status

code = status.main()
sys.exit("the upgrade check failed" if code not in (None, 0, 1) else 0)
