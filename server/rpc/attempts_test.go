package rpc

import (
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

func TestAttemptsBySource(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	a := newAttempts(func() time.Time { return now })
	count := func(addr string) (allowed int) {
		for a.allow(netip.MustParseAddr(addr)) {
			allowed++
		}
		return allowed
	}
	cases := []struct {
		name, addr string
		want       int
	}{
		{"a source has its burst", "192.0.2.1", burstPerSource},
		{"and no more", "192.0.2.1", 0},
		{"in no other spelling", "::ffff:192.0.2.1", 0},
		{"a neighbour has its own", "192.0.2.2", burstPerSource},
		{"IPv6 too", "2001:db8:0:1::1", burstPerSource},
		{"one host of IPv6 has one", "2001:db8:0:1:ffff::1", 0},
		{"the listener has 200 for all", "198.51.100.1", 50},
		{"and then nobody", "198.51.100.2", 0},
	}
	for _, c := range cases {
		if got := count(c.addr); got != c.want {
			t.Errorf("%s: %s has %d, want %d", c.name, c.addr, got, c.want)
		}
	}
	now = now.Add(time.Second)
	if got := count("192.0.2.1"); got != attemptsPerSource {
		t.Errorf("a second later the first source has %d, want %d", got, attemptsPerSource)
	}
}

func TestS22_AttemptsAreBounded(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	a := newAttempts(func() time.Time { return now })
	often := netip.MustParseAddr("192.0.2.1")
	for i := range 100_000 {
		a.allow(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
		if i%100 == 0 {
			a.allow(often)
		}
	}
	if n := len(a.young) + len(a.old); n > sourcesRemembered {
		t.Errorf("%d sources are remembered, at most %d may be", n, sourcesRemembered)
	}
	now = now.Add(time.Second)
	for range burstPerSource {
		a.allow(often)
	}
	if a.allow(often) {
		t.Error("a source that comes often was forgotten")
	}
}

func TestSourceOfNoAddress(t *testing.T) {
	if got := sourceOf(t.Context()); got.IsValid() {
		t.Errorf("a call from nowhere comes from %v", got)
	}
}

// endless has always one more connection.
type endless struct{ net.Listener }

func (endless) Accept() (net.Conn, error) { return nil, nil }
func (endless) Close() error              { return nil }

func TestHandshakesArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPaced(endless{})
		start := time.Now()
		for range handshakeBurst + 2*handshakesPerSecond {
			if _, err := l.Accept(); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start).Round(10 * time.Millisecond); took != 2*time.Second {
			t.Errorf("took %v, want 2s", took)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Accept(); err == nil {
			t.Error("a closed listener accepts")
		}
	})
}
