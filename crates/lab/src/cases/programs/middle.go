// A web server that asks Redis once for each request: middle ADDRESS REDIS WORD…
package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
)

func main() {
	redis := os.Args[2]
	command := fmt.Sprintf("*%d\r\n", len(os.Args[3:]))
	for _, word := range os.Args[3:] {
		command += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	// Connections to Redis that no request uses at present.
	free := make(chan net.Conn, 100)
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		var conn net.Conn
		select {
		case conn = <-free:
		default:
			made, err := net.Dial("tcp", redis)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			conn = made
		}
		fmt.Fprint(conn, command)
		if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
			conn.Close()
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		free <- conn
		fmt.Fprint(w, strings.Repeat("g", 500))
	})
	if err := http.ListenAndServe(os.Args[1], nil); err != nil {
		panic(err)
	}
}
