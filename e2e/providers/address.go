package providers

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"
)

// The ports of a server; each has an address of its own to listen on.
const (
	healthPort       = "8990"
	electionPort     = "8991"
	registrationPort = "8992"
	operatorPort     = "8993"
	agentPort        = "8994"
)

// Address is the address of a shard: it leads to whichever of the servers says that it
// leads, as a movable address of a cloud does. A connection stays where it was made.
type Address struct {
	Host    string
	servers []string // hosts
	client  *http.Client

	listeners []net.Listener

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
	all    sync.WaitGroup
}

// loopback returns the address with that number in the test process's own part of
// 127.0.0.0/8.
func loopback(n int) string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 1+pid>>8%250, 1+pid%250, n)
}

// NewAddress opens the shard's address until the test ends.
func NewAddress(t testing.TB, host string, servers ...string) *Address {
	t.Helper()
	a := &Address{Host: host, servers: servers, conns: map[net.Conn]bool{}, client: &http.Client{
		Timeout:   2 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // a probe learns nothing and tells nothing
	}}
	t.Cleanup(a.close)
	for _, port := range []string{registrationPort, operatorPort, agentPort} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, port))
		if err != nil {
			t.Fatal(err)
		}
		a.listeners = append(a.listeners, l)
		a.all.Go(func() { a.accept(l, port) })
	}
	return a
}

// Leader returns the host of the server that leads, "" if none says so.
func (a *Address) Leader() string {
	for _, host := range a.servers {
		resp, err := a.client.Get("https://" + net.JoinHostPort(host, electionPort) + "/leader/health")
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return host
		}
	}
	return ""
}

func (a *Address) accept(l net.Listener, port string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // the test is over
		}
		a.all.Go(func() { a.lead(conn, port) })
	}
}

// lead carries one connection.
func (a *Address) lead(client net.Conn, port string) {
	defer a.forget(client)
	host := a.Leader()
	if host == "" || !a.keep(client) {
		return
	}
	server, err := net.DialTimeout("tcp", net.JoinHostPort(host, port), 2*time.Second)
	if err != nil {
		return
	}
	defer a.forget(server)
	if !a.keep(server) {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
	_ = client.Close()
	<-done
}

// keep remembers a connection, and reports whether it may go on.
func (a *Address) keep(c net.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conns[c] = true
	return !a.closed
}

func (a *Address) forget(c net.Conn) {
	_ = c.Close()
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.conns, c)
}

// close gives the address up and ends all connections.
func (a *Address) close() {
	for _, l := range a.listeners {
		_ = l.Close()
	}
	a.mu.Lock()
	a.closed = true
	for c := range a.conns {
		_ = c.Close()
	}
	a.mu.Unlock()
	a.all.Wait()
	a.client.CloseIdleConnections()
}
