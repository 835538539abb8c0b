package command_test

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"nstance.dev/agent/paver/command"
)

func TestRun(t *testing.T) {
	out, err := command.Run(exec.CommandContext(t.Context(), "sh", "-c", "echo out; echo err >&2; exit 3"))
	if err != nil || out.Code != 3 || string(out.Text) != "out\nerr\n" {
		t.Errorf("%d %q, %v", out.Code, out.Text, err)
	}
	out, err = command.Run(exec.CommandContext(t.Context(), "sh", "-c", "yes | head -c 200000; echo end"))
	if err != nil || len(out.Text) != command.MaxOutput || !strings.HasSuffix(string(out.Text), "end\n") {
		t.Errorf("%d bytes, %v", len(out.Text), err)
	}
	if _, err := command.Run(exec.CommandContext(t.Context(), "no-such-program")); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if out, err := command.RunFor(exec.CommandContext(t.Context(), "sh", "-c", "echo out; echo err >&2")); err != nil || string(out.Text) != "err\n" {
		t.Errorf("%q, %v", out.Text, err)
	}
}

// A command ends with its context, and with all that it started.
func TestACommandEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := command.Run(exec.CommandContext(ctx, "sh", "-c", "sleep 60 & sleep 60"))
	if err == nil || time.Since(began) > 10*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}
