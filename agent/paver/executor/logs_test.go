package executor_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/agent/paver/executor"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/logs"
	"nstance.dev/agent/paver/operation"
	"nstance.dev/agent/paver/runner/fake"
)

const secret = "marked-secret-0123456789"

func collecting(since time.Time, units string) operation.Record {
	return operation.Record{ID: "op-1", Name: operation.CollectLogs, Taken: since.Add(time.Hour), Parameters: map[string]string{"units": units}}
}

func newExecutor(t *testing.T, runs executor.Journalctl) *executor.Executor {
	t.Helper()
	return executor.New(executor.Options{Runner: &fake.Runner{}, Journalctl: runs, Log: slog.New(slog.DiscardHandler)})
}

func textOf(t *testing.T, p logs.Packed) string {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(p.Content))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestCollectLogs: what is asked of the journals of host and machine, and what comes of one that cannot be read.
func TestCollectLogs(t *testing.T) {
	since := time.Unix(1_767_225_600, 0).UTC()
	gone := errors.New("no journal")
	for _, c := range []struct {
		name  string
		slot  journal.Slot
		units string
		fails map[journal.Slot]bool
		asked []journal.Slot
		want  []string // in the text; none: an error
	}{
		{"of a host without a machine", journal.None, "", nil, []journal.Slot{journal.None}, []string{"since 2026-01-01T00:00:00Z, all units", "journal of the host: 1 entries"}},
		{"of both", journal.A, "kubelet,ssh.service", nil, []journal.Slot{journal.None, journal.A}, []string{"kubelet, ssh.service", "journal of the host: 1", "journal of machine node-a: 1"}},
		{
			"of a host without a journal", journal.B, "", map[journal.Slot]bool{journal.None: true},
			[]journal.Slot{journal.None, journal.B}, []string{"journal of the host: 0 entries, not read to the end: no journal", "journal of machine node-b: 1 entries"},
		},
		{"of none", journal.A, "", map[journal.Slot]bool{journal.None: true, journal.A: true}, []journal.Slot{journal.None, journal.A}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []journal.Slot
			e := newExecutor(t, func(_ context.Context, slot journal.Slot, out io.Writer, args ...string) error {
				asked = append(asked, slot)
				want := []string{"--quiet", "--no-pager", "--output=json", "--output-fields=" + logs.Fields, "--lines=20000", "--since=@1767225600"}
				for unit := range strings.SplitSeq(c.units, ",") {
					if unit != "" {
						want = append(want, "--unit="+unit)
					}
				}
				if !slices.Equal(args, want) {
					t.Errorf("asked with %q, want %q", args, want)
				}
				if c.fails[slot] {
					return gone
				}
				_, err := fmt.Fprintf(out, `{"__REALTIME_TIMESTAMP":"1767225600000000","MESSAGE":"said %s"}`, secret)
				return err
			})
			got, err := e.Collect(t.Context(), collecting(since, c.units), c.slot, []string{secret})
			if !slices.Equal(asked, c.asked) {
				t.Errorf("asked %v, want %v", asked, c.asked)
			}
			if len(c.want) == 0 {
				if !errors.Is(err, gone) {
					t.Errorf("Collect: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			text := textOf(t, got)
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("%q is missing in\n%s", want, text)
				}
			}
			if strings.Contains(text, secret) {
				t.Errorf("a secret in\n%s", text)
			}
		})
	}
}

// TestCollectLogsByAProgram: a real process, in place of journalctl: each argument arrives as it is, what it writes is taken,
// its errors are told, and it ends with its context.
func TestCollectLogsByAProgram(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	program := func(script string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "journalctl"), []byte("#!/bin/sh\n"+script), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	e := newExecutor(t, nil)
	program(`printf '%s\n' "$@" > ` + dir + `/args; printf '{"__REALTIME_TIMESTAMP":"1","MESSAGE":"password=` + secret + `"}\n'`)
	unit := `a\x20b$(touch\x20x)`
	got, err := e.Collect(t.Context(), collecting(time.Unix(10, 0), unit), journal.None, nil)
	if err != nil {
		t.Fatal(err)
	}
	if text := textOf(t, got); !strings.Contains(text, "password=<masked>") || strings.Contains(text, secret) {
		t.Errorf("collected\n%s", text)
	}
	args, err := os.ReadFile(filepath.Join(dir, "args"))
	if err != nil || !strings.HasSuffix(string(args), "\n--since=@10\n--unit="+unit+"\n") {
		t.Errorf("arguments %q, %v", args, err)
	}
	program("echo no such journal >&2; exit 1")
	if _, err := e.Collect(t.Context(), collecting(time.Unix(10, 0), ""), journal.None, nil); err == nil || !strings.Contains(err.Error(), "exit code 1: no such journal") {
		t.Errorf("of one that fails: %v", err)
	}
	program("exec sleep 1000")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := e.Collect(ctx, collecting(time.Unix(10, 0), ""), journal.None, nil); !errors.Is(ctx.Err(), context.DeadlineExceeded) || err == nil {
		t.Errorf("of one that does not end: %v", err)
	}
}
