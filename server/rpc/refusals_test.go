package rpc

import (
	"net/netip"
	"testing"
	"time"
)

func TestF41_OneLineASecondAndSource(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	r := newRefusalLog(func() time.Time { return now })
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	lines, missed := 0, 0
	refuse := func(source netip.Addr) {
		if ok, n := r.log(source); ok {
			lines, missed = lines+1, missed+n
		}
	}
	for range 1000 {
		refuse(a)
	}
	refuse(b)
	if lines != 2 || missed != 0 {
		t.Errorf("a moment: %d lines, %d missed", lines, missed)
	}
	now = now.Add(time.Second)
	refuse(a)
	if lines != 3 || missed != 999 {
		t.Errorf("a second later: %d lines, %d missed, want 3 and 999", lines, missed)
	}
}

// TestS22_RefusalsOfManySources: neither memory nor log grow with the number of sources, and
// nothing is lost of what is counted.
func TestS22_RefusalsOfManySources(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	r := newRefusalLog(func() time.Time { return now })
	lines, missed := 0, 0
	const all = 100_000
	for i := range all {
		if ok, n := r.log(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})); ok {
			lines, missed = lines+1, missed+n
		}
	}
	if n := len(r.young) + len(r.old); n > sourcesRemembered {
		t.Errorf("%d sources are remembered", n)
	}
	if lines != refusalsAtOnce {
		t.Errorf("%d lines in a moment, want %d", lines, refusalsAtOnce)
	}
	now = now.Add(time.Minute)
	if ok, n := r.log(netip.MustParseAddr("192.0.2.1")); !ok || lines+missed+n != all {
		t.Errorf("logged %d, counted %d, of %d", lines, missed+n, all)
	}
}
