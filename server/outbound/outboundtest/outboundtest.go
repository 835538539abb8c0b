//go:build linux

// Package outboundtest holds the test that a client's connections are bounded by package outbound.
package outboundtest

import (
	"context"
	"net"
	"net/http/httptrace"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"nstance.dev/server/outbound"
)

// Bounded has call make a request over TCP with the context that it gets, and asks the kernel about
// the connection that it went through. How the request ends does not count.
func Bounded(t *testing.T, call func(ctx context.Context)) {
	t.Helper()
	var seen []time.Duration
	call(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		limit, err := limitOf(got.Conn)
		if err != nil {
			t.Error(err)
		}
		seen = append(seen, limit)
	}}))
	if len(seen) == 0 {
		t.Fatal("no connection was made")
	}
	for _, limit := range seen {
		if limit != outbound.Limit() {
			t.Errorf("data may be unconfirmed for %v (0s: as long as the kernel likes), want %v", limit, outbound.Limit())
		}
	}
}

func limitOf(conn net.Conn) (time.Duration, error) {
	if below, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = below.NetConn()
	}
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var ms int
	var got error
	if err := raw.Control(func(fd uintptr) {
		ms, got = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	}); err != nil {
		return 0, err
	}
	return time.Duration(ms) * time.Millisecond, got
}
