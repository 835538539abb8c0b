package providers

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"nstance.dev/e2e/env/carry"
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
	a := &Address{Host: host, servers: servers, client: &http.Client{
		Timeout:   2 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // a probe learns nothing and tells nothing
	}}
	t.Cleanup(a.client.CloseIdleConnections)
	for _, port := range []string{registrationPort, operatorPort, agentPort} {
		carrier, err := carry.Start(net.JoinHostPort(host, port), func() (net.Conn, error) { return a.dial(port) }, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(carrier.Close)
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

// dial opens a connection to the server that leads.
func (a *Address) dial(port string) (net.Conn, error) {
	host := a.Leader()
	if host == "" {
		return nil, errors.New("no server leads")
	}
	return net.DialTimeout("tcp", net.JoinHostPort(host, port), 2*time.Second)
}
