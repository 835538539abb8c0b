package link

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/metadata"
	"pgregory.net/rapid"

	"nstance.dev/protos/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestL6_Reconnect(t *testing.T) {
	for _, tt := range []struct {
		failures int
		absent   time.Duration
		window   time.Duration
	}{
		{0, 0, time.Second},
		{1, 0, time.Second},
		{2, time.Second, 1600 * time.Millisecond},
		{3, 3 * time.Second, 2560 * time.Millisecond},
		{6, time.Minute, 10 * time.Second},
		{1000, 299 * time.Second, 10 * time.Second},
		{6, 5 * time.Minute, 10485760 * time.Microsecond},
		{1000, time.Hour, time.Minute},
	} {
		if d := Reconnect(tt.failures, tt.absent, 0.5); (d - tt.window/2).Abs() > time.Millisecond {
			t.Errorf("Reconnect(%d, %v, 0.5) = %v, want half of %v", tt.failures, tt.absent, d, tt.window)
		}
		if d := Reconnect(tt.failures, tt.absent, 0); d != 0 {
			t.Errorf("Reconnect(%d, %v, 0) = %v, want full jitter from 0", tt.failures, tt.absent, d)
		}
	}
}

func TestEnrol(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		failures := rapid.IntRange(0, 10_000).Draw(t, "failures")
		d := Enrol(failures, rapid.Float64Range(0, 0.9999).Draw(t, "random"))
		if d < 125*time.Millisecond || d > 30*time.Second {
			t.Fatalf("pause %v", d)
		}
		if failures <= 1 && d > 250*time.Millisecond {
			t.Fatalf("first pause %v", d)
		}
		if failures > 8 && d < 15*time.Second {
			t.Fatalf("pause %v after %d failures", d, failures)
		}
	})
}

// dialAll takes addresses until the book says to pause.
func dialAll(t *testing.T, b *Book, leaders map[string]string) []string {
	t.Helper()
	var dialled []string
	for {
		addr, err := b.Next()
		if err != nil {
			t.Fatal(err)
		}
		dialled = append(dialled, addr)
		if len(dialled) > 20 {
			t.Fatalf("no pause: %v", dialled)
		}
		if !b.Failed(leaders[addr]) {
			return dialled
		}
	}
}

func TestBook(t *testing.T) {
	for _, tt := range []struct {
		name    string
		list    []string
		leaders map[string]string
		want    []string // of two rounds, "|" between
	}{
		{"one address", []string{"a:1"}, nil, []string{"a:1", "|", "a:1"}},
		{"each once in a round", []string{"a:1", "b:1", "c:1"}, nil, []string{"a:1", "b:1", "c:1", "|", "a:1", "b:1", "c:1"}},
		{"a hint comes first", []string{"a:1", "b:1"}, map[string]string{"a:1": "l:1"}, []string{"a:1", "l:1", "b:1", "|", "a:1", "l:1", "b:1"}},
		{"one hint in a round", []string{"a:1"}, map[string]string{"a:1": "b:1", "b:1": "a:1"}, []string{"a:1", "b:1", "|", "a:1", "b:1"}},
		{"a server that names itself", []string{"a:1"}, map[string]string{"a:1": "a:1"}, []string{"a:1", "|", "a:1"}},
		{"a hint that is no address", []string{"a:1"}, map[string]string{"a:1": "../a"}, []string{"a:1", "|", "a:1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := NewBook(tt.list, "", Agent)
			got := append(append(dialAll(t, b, tt.leaders), "|"), dialAll(t, b, tt.leaders)...)
			if !slices.Equal(got, tt.want) {
				t.Errorf("dialled %v, want %v", got, tt.want)
			}
		})
	}
}

func TestBookStartsWhereItWorked(t *testing.T) {
	b := NewBook([]string{"a:1", "b:1", "c:1"}, "", Agent)
	for _, want := range []string{"a:1", "b:1"} {
		if got, err := b.Next(); got != want || err != nil {
			t.Fatalf("Next() = %q, %v", got, err)
		}
		b.Failed("")
	}
	b.Worked()
	if b.Failed("") {
		t.Error("another address at once, although the last one had served")
	}
	if got := dialAll(t, b, nil); !slices.Equal(got, []string{"b:1", "c:1", "a:1"}) {
		t.Errorf("dialled %v, want to begin with b:1", got)
	}
}

func TestTheAddressFileIsReadAtEveryDial(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leader.json")
	b := NewBook([]string{"ignored:1"}, path, Agent)
	if _, err := b.Next(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v without a file, want %v", err, fs.ErrNotExist)
	}
	if b.Failed("") {
		t.Error("no pause after a round without addresses")
	}
	for _, tt := range []struct{ content, want, says string }{
		{`{"registration":"r:1","operator":"o:1","agent":"a:1","health":"h:1"}`, "a:1", ""},
		{`{"agent":"b:2"}`, "b:2", ""},
		{`{"agent":"c:3, d:4","of_a_later_version":{}}`, "c:3", ""},
		{`{"registration":"r:1"}`, "", `no address as "agent"`},
		{`{"agent":7}`, "", `no address as "agent"`},
		{`{"agent":"nowhere"}`, "", "not host:port"},
		{`{"agent":`, "", "JSON"},
		{`null`, "", "no address"},
	} {
		if err := os.WriteFile(path, []byte(tt.content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := b.Next()
		if got != tt.want || (err != nil) != (tt.says != "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: Next() = %q, %v", tt.content, got, err)
		}
		b.Failed("")
		b.Failed("")
	}
}

func FuzzAddressFile(f *testing.F) {
	f.Add([]byte(`{"agent":"a:1,b:2"}`))
	f.Add([]byte(`{"agent":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		addrs, err := parseFile("leader.json", data, Agent)
		if (err == nil) != (len(addrs) > 0) {
			t.Fatalf("addresses %v, error %v", addrs, err)
		}
	})
}

func TestLeader(t *testing.T) {
	for _, tt := range []struct {
		trailer metadata.MD
		want    string
	}{
		{nil, ""},
		{metadata.Pairs(identity.LeaderTrailer, "a:1"), "a:1"},
		{metadata.Pairs(identity.LeaderTrailer, "a:1", identity.LeaderTrailer, "b:1"), ""},
	} {
		if got := Leader(tt.trailer); got != tt.want {
			t.Errorf("Leader(%v) = %q, want %q", tt.trailer, got, tt.want)
		}
	}
}
