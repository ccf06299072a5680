"""Asks OVN's databases as the program of this pod will: whom they do not let in is not started."""

import os
import socket
import ssl
import sys
import time

place, *databases = sys.argv[1:]
PATIENCE = 10
# Addresses that a person wrote may be wrong; others are told by the databases themselves, and the program waits for them.
MUST_ANSWER = os.environ.get("MUST_ANSWER") == "yes"
ANSWERS_WITHIN = 60


def certificates():
    """As Python's OVS sets it up: both sides show certificates, names are not compared."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    try:
        context.load_cert_chain(f"{place}/tls.crt", f"{place}/tls.key")
    except (OSError, ValueError) as error:
        sys.exit(f"tls.crt and tls.key do not go together or cannot be read: {error}")
    try:
        context.load_verify_locations(f"{place}/ca.crt")
    except (OSError, ValueError) as error:
        sys.exit(f"ca.crt cannot be read: {error}")
    return context


def connected(address):
    """A connection, or an OSError where nobody answers."""
    host, _, port = address.partition(":")[2].rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), PATIENCE)


def refusal(context, address):
    """Why a server is not to be talked to; nothing where it accepts us, or where nobody answers."""
    try:
        stream = connected(address)
    except OSError:
        return None
    with stream:
        try:
            with context.wrap_socket(stream) as secured:
                # What the server makes of our certificate comes with its first answer.
                secured.sendall(b'{"id": 0, "method": "echo", "params": []}')
                if secured.recv(1):
                    return None
                return "it closes the connection: it does not trust the authority of tls.crt"
        except ssl.SSLCertVerificationError as error:
            return f"ca.crt does not vouch for its certificate: {error.verify_message}"
        except ssl.SSLError as error:
            return f"it does not accept tls.crt, or does not speak TLS: {error.reason or error.strerror}"
        except TimeoutError:
            return None
        except OSError as error:
            return f"it closes the connection: {error.strerror}"


def silence(addresses):
    """Why none of them answers; nothing where one does. A database that is just starting has a while."""
    end = time.monotonic() + ANSWERS_WITHIN
    while True:
        for address in addresses:
            try:
                connected(address).close()
                return None
            except OSError as error:
                why = error.strerror or str(error)
        if time.monotonic() > end:
            return why
        time.sleep(1)


for database in databases:
    addresses = [address.strip() for address in database.split(",")]
    why = silence(addresses) if MUST_ANSWER else None
    if why:
        sys.exit(f"OVN at {database} does not answer: {why}")
    secured = [address for address in addresses if address.startswith("ssl:")]
    context = certificates() if secured else None
    refusals = [refusal(context, address) for address in secured]
    # One member that accepts us is enough to begin with.
    if refusals and all(refusals):
        sys.exit(f"TLS with OVN at {secured[0]} fails: {refusals[0]}")
