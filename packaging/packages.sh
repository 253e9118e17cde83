# What the packages of all systems have in common; sourced.

# The packages: name, target of make that installs it, its summary, its description, and the package that
# it needs in the same version.
tcpwhy=(tcpwhy install 'says why a request was slow'
    'tcpwhy reads packet captures, watches the running system or asks a server
itself, gives the time of every request to an owner, and names the causes:
what each one cost, which side has to change what, and the evidence.' '')
tcpwhy_lab=(tcpwhy-lab install-lab 'lab of network faults for tcpwhy'
    'tcpwhy-lab makes requests slow with real software in network namespaces, and
says whether tcpwhy names the cause. It is not needed to use tcpwhy, and is
run as root.' tcpwhy)

# version PROGRAM: the version that it states.
version() {
    "$1" --version | awk 'NR == 1 { print $2 }'
}

# staged TARGET ROOT: what `make TARGET` installs of the program TCPWHY, below ROOT/usr.
staged() {
    make -s "$1" TCPWHY="$TCPWHY" DESTDIR="$2" PREFIX=/usr
    gzip -9n "$2"/usr/share/man/man1/*.1
}
