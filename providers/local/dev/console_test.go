package dev

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// The first make dev shows machines before nstance-admin is compiled: the console comes when
// it is, and not while the file cannot be executed yet.
func TestConsoleComesWhenItsProgramIsBuilt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &console{program: filepath.Join(t.TempDir(), adminProgram), log: slog.New(slog.DiscardHandler)}
		built := make(chan bool, 1)
		go func() { built <- c.built(t.Context()) }()
		step := func(mode os.FileMode) {
			time.Sleep(time.Minute)
			if err := os.WriteFile(c.program, nil, mode); err != nil {
				t.Error(err)
			}
			if err := os.Chmod(c.program, mode); err != nil {
				t.Error(err)
			}
			time.Sleep(2 * programLook)
			synctest.Wait()
		}
		step(0o600)
		if len(built) > 0 {
			t.Error("the console starts a program that cannot be executed")
		}
		step(0o700)
		if len(built) == 0 || !<-built {
			t.Error("the program is there, and the console does not start")
		}
	})
}

func TestConsoleIsNotWaitedForAfterTheEnd(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	c := &console{program: filepath.Join(t.TempDir(), adminProgram), log: slog.New(slog.DiscardHandler)}
	if c.built(ctx) {
		t.Error("there is a program where nothing is")
	}
}
