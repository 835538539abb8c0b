package kube

import (
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// Ports for components: below what Linux gives to outgoing connections (32768 and up).
const (
	firstPort = 10000
	lastPort  = 32000
)

// ports is where this process looks for the next free port. Processes that share a
// network begin at different places.
var ports = struct {
	sync.Mutex
	next int
}{next: firstPort + os.Getpid()*97%(lastPort-firstPort)}

// FreePort returns a port of 127.0.0.1 on which nobody listens, and which this process
// has not given to anybody before.
func FreePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	for range lastPort - firstPort {
		port := ports.next
		if ports.next++; ports.next == lastPort {
			ports.next = firstPort
		}
		if free(port) {
			return port, nil
		}
	}
	return 0, errors.New("no free port on 127.0.0.1")
}

// free reports whether nobody listens on a port: who calls it is refused. To listen there
// for a moment would be wrong, since a process that is being started meanwhile has that
// socket too until it is executed, and the port stays taken for as long.
func free(port int) bool {
	c, err := net.Dial("tcp", address(port))
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// address is the form of a port in which programs take it.
func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
