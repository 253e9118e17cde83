// A server that writes header and body apart: split ADDRESS PORT BYTES NODELAY
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"strconv"
)

func main() {
	size, _ := strconv.Atoi(os.Args[3])
	body := bytes.Repeat([]byte("g"), size)
	listener, err := net.Listen("tcp", net.JoinHostPort(os.Args[1], os.Args[2]))
	if err != nil {
		panic(err)
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		// Go turns TCP_NODELAY on by itself.
		conn.(*net.TCPConn).SetNoDelay(os.Args[4] == "1")
		go serve(conn, body)
	}
}

func serve(conn net.Conn, body []byte) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if lines.Text() != "" {
			continue
		}
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nServer: split-go\r\nContent-Length: %d\r\n\r\n", len(body))
		conn.Write(body)
	}
}
