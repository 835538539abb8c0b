package handback

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2328 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 101 1 0000000000000000 100 0 0 10 0
   1: 0200000A:A3C4 0300000A:01BB 01 00000010:00000000 01:00000014 00000000  1000        0 102 1 0000000000000000 20 4 30 10 -1
   2: 0200000A:A3C6 0300000A:01BB 04 00000201:00000000 01:00000014 00000000     0        0 0 2 0000000000000000 20 4 30 10 -1
   3: 0200000A:2322 0400000A:C001 0B 00000001:00000000 01:00000014 00000000     0        0 0 2 0000000000000000 20 4 30 10 -1
   4: 0200000A:A3C8 0300000A:01BB 06 00000000:00000000 03:00000014 00000000     0        0 0 3 0000000000000000
   5: 0200000A:A3CA 0300000A:01BB 05 00000000:00000000 00:00000000 00000000     0        0 0 1 0000000000000000
`

func TestUnsentConnections(t *testing.T) {
	all, err := readConnections(strings.NewReader(table))
	want := []Connection{{0xA3C6, 443}, {0x2322, 0xC001}}
	if err != nil || len(all) != 2 || all[0] != want[0] || all[1] != want[1] {
		t.Fatalf("%+v, %v, want %+v", all, err, want)
	}
	if rest := except(all, []uint16{0x2322}); len(rest) != 1 || rest[0] != want[0] {
		t.Errorf("but for those of the listener: %+v", rest)
	}
	for _, bad := range []string{"\n   2: 0200000A:A3C6", strings.Replace(table, "00000201:", "zz:", 1), strings.Replace(table, "0300000A:01BB 04", "0300000A 04", 1)} {
		if _, err := readConnections(strings.NewReader(bad)); err == nil {
			t.Errorf("accepted:\n%s", bad)
		}
	}
}

// TestAwait: what goes out in time is waited for; what does not keeps the lease.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, none := []Connection{{1, 2}}, []Connection(nil)
		start := time.Now()
		gone := func() ([]Connection, error) {
			if time.Since(start) < 300*time.Millisecond {
				return one, nil
			}
			return none, nil
		}
		if err := Await(t.Context(), 500*time.Millisecond, gone); err != nil || time.Since(start) > 320*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if err := Await(t.Context(), 500*time.Millisecond, func() ([]Connection, error) { return one, nil }); err == nil || !strings.Contains(err.Error(), "from port 1 to port 2") {
			t.Errorf("still unsent: %v", err)
		}
		unknown := errors.New("no table")
		if err := Await(t.Context(), time.Second, func() ([]Connection, error) { return nil, unknown }); !errors.Is(err, unknown) {
			t.Errorf("unknown: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := Await(ctx, time.Second, func() ([]Connection, error) { return one, nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("given up: %v", err)
		}
	})
}

// TestTheKernelsOwnTable: the form that this kernel writes is the one that is read.
func TestTheKernelsOwnTable(t *testing.T) {
	if _, err := os.Stat("/proc/net/tcp"); err != nil {
		t.Log("no such table here: only the form in this file is tested")
		return
	}
	if _, err := Unsent(nil); err != nil {
		t.Error(err)
	}
}

func FuzzReadConnections(f *testing.F) {
	f.Add([]byte(table))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := readConnections(bytes.NewReader(data))
		if err != nil && all != nil || len(all) > bytes.Count(data, []byte("\n"))+1 {
			t.Fatalf("%d connections, %v", len(all), err)
		}
	})
}
