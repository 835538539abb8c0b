package unit

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A script that something has open for writing is run when it is closed, and refused when it stays open.
func TestAProgramThatIsStillWritten(t *testing.T) {
	for name, test := range map[string]struct {
		open    time.Duration
		refused bool
	}{
		"for a moment": {open: 50 * time.Millisecond},
		"for ever":     {open: time.Hour, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "run")
			if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			writer, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				closed := time.AfterFunc(test.open, func() { _ = writer.Close() })
				defer closed.Stop()
				cmd, err := started(t.Context(), func() *exec.Cmd { return exec.Command(path) })
				if test.refused {
					if got, want := reason(err), "not run: "+syscall.ETXTBSY.Error(); got != want {
						t.Errorf("started says %q, want %q", got, want)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Wait(); err != nil {
					t.Error(err)
				}
			})
			_ = writer.Close()
		})
	}
}
