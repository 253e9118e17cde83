"""Gives every frame of a pcap file an 802.1Q tag (VLAN 42) and writes it as pcapng.

vlan.py FROM.pcap TO.pcapng: for kernels without VLAN devices; nothing but the tag is added.
"""

import pathlib
import struct
import subprocess
import sys
import tempfile

TAG = struct.pack("!HH", 0x8100, 42)
FILE_HEADER, RECORD_HEADER, MACS = 24, 16, 12


def tagged(old):
    new, at = old[:FILE_HEADER], FILE_HEADER
    while at < len(old):
        seconds, fraction, captured, length = struct.unpack_from("<IIII", old, at)
        frame = old[at + RECORD_HEADER : at + RECORD_HEADER + captured]
        new += struct.pack("<IIII", seconds, fraction, captured + len(TAG), length + len(TAG))
        new += frame[:MACS] + TAG + frame[MACS:]
        at += RECORD_HEADER + captured
    return new


if __name__ == "__main__":
    source, target = sys.argv[1:]
    with tempfile.NamedTemporaryFile() as middle:
        middle.write(tagged(pathlib.Path(source).read_bytes()))
        middle.flush()
        subprocess.run(["editcap", "-F", "pcapng", middle.name, target], check=True)
