/* A server that writes header and body apart: split ADDRESS PORT BYTES NODELAY */
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void serve(int fd, const char *body, size_t body_len)
{
    char header[256], request[65536];
    size_t have = 0;
    int header_len = snprintf(header, sizeof header,
        "HTTP/1.1 200 OK\r\nServer: split-c\r\nContent-Length: %zu\r\n\r\n", body_len);
    for (;;) {
        ssize_t n = read(fd, request + have, sizeof request - 1 - have);
        if (n <= 0)
            return;
        have += (size_t)n;
        request[have] = 0;
        if (!strstr(request, "\r\n\r\n"))
            continue;
        have = 0;
        if (write(fd, header, (size_t)header_len) < 0 || write(fd, body, body_len) < 0)
            return;
    }
}

int main(int argc, char **argv)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST }, *to;
    if (argc < 5 || getaddrinfo(argv[1], argv[2], &hints, &to))
        return 2;
    size_t body_len = (size_t)atol(argv[3]);
    int nodelay = atoi(argv[4]), yes = 1;
    char *body = malloc(body_len + 1);
    int listener = socket(to->ai_family, SOCK_STREAM, 0);
    if (!body || listener < 0)
        return 1;
    memset(body, 'c', body_len);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, to->ai_addr, to->ai_addrlen) || listen(listener, 128))
        return 1;
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            return 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, sizeof nodelay);
        /* A process per connection that dies with its client. */
        if (fork() == 0) {
            close(listener);
            serve(fd, body, body_len);
            _exit(0);
        }
        close(fd);
    }
}
