# A server with a thread for each connection, whose work for a request is a knob of the case:
# work.py ADDRESS PORT WORK SECONDS [FILE [PAGES TOUCHED]]
import mmap, os, random, socket, sys, threading, time

address, port, work, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
file = sys.argv[5] if len(sys.argv) > 5 else None
lock = threading.Lock()
PAGE = 4096
PAGES, touched = map(int, sys.argv[6:8]) if len(sys.argv) > 7 else (2048, 1)

if file:
    with open(file, 'wb') as made:
        made.write(os.urandom(PAGE * PAGES))
        os.fsync(made.fileno())
    descriptor = os.open(file, os.O_RDWR)
    pages = mmap.mmap(descriptor, PAGE * PAGES, access=mmap.ACCESS_READ)
    pages.madvise(mmap.MADV_RANDOM)


def compute(_):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def hold(_):
    with lock:
        time.sleep(seconds)


def sync(_):
    os.pwrite(descriptor, os.urandom(PAGE), random.randrange(PAGES) * PAGE)
    os.fdatasync(descriptor)


def drop(_):
    pages.madvise(mmap.MADV_DONTNEED)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    touch(None)


def touch(_):
    for _ in range(touched):
        pages[random.randrange(PAGES) * PAGE]


# Asks the client's host who connects, as mail and chat servers do (RFC 1413), and goes on without an answer.
def ident(connection):
    try:
        socket.create_connection((connection.getpeername()[0], 113), timeout=seconds).close()
    except OSError:
        pass


WORK = {
    'compute': compute, 'hold': hold, 'sleep': lambda _: time.sleep(seconds), 'sync': sync,
    'drop': drop, 'touch': touch, 'ident': ident, 'none': lambda _: None,
}


def serve(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while connection.recv(4096):
        WORK[work](connection)
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n' + b'x' * 500)


family = socket.AF_INET6 if ':' in address else socket.AF_INET
listener = socket.create_server((address, port), family=family, backlog=100)
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
