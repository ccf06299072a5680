"""The key with which hypervisors copy disks to each other, made of the secret that they share.

    disks.py [COMMAND...]

With a command it writes what ssh reads and becomes the command; without one it serves the others.
One key says who may log in and who answers: every hypervisor has both sides.
"""
import hashlib
import os
import pathlib
import sys

from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

# As /etc/ssh/ssh_config.d/hypervisors.conf of the image names them.
PLACE = pathlib.Path("/tmp/disks")
ALIAS = "hypervisor"
PORT = 8022

# /tmp, which all may write to, is this container's alone: hence no StrictModes.
SERVER = f"""
Port {PORT}
HostKey {PLACE}/key
AuthorizedKeysFile {PLACE}/allowed
StrictModes no
PidFile none
UsePAM no
PermitRootLogin prohibit-password
AuthenticationMethods publickey
AllowUsers root
DisableForwarding yes
PermitTTY no
PrintMotd no
Subsystem sftp internal-sftp
"""


def keep(name, content):
    path = PLACE / name
    path.touch(mode=0o600)
    path.write_bytes(content)


def main():
    seed = hashlib.sha256(b"disks:" + os.environ.pop("OS_MIGRATION__SECRET").encode()).digest()
    key = Ed25519PrivateKey.from_private_bytes(seed)
    public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    PLACE.mkdir(mode=0o700, exist_ok=True)
    keep("key", key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption()))
    keep("known", ALIAS.encode() + b" " + public + b"\n")
    keep("allowed", b"restrict " + public + b"\n")
    if sys.argv[1:]:
        os.execvp(sys.argv[1], sys.argv[1:])
    address = os.environ["NODE_ADDRESS"]
    keep("server", f"ListenAddress {address}\n{SERVER}".encode())
    os.chmod("/run/sshd", 0o755)
    os.execv("/usr/sbin/sshd", ["/usr/sbin/sshd", "-D", "-e", "-f", str(PLACE / "server")])


main()
