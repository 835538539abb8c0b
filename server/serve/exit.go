package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/term"

	"nstance.dev/server/config/document"
)

// usageError is an error of the command line.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// exitCode prints an error and maps it to the exit code of the process.
func exitCode(err error, out io.Writer) int {
	var usage *usageError
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(out, "error: %v\nRun with --help for the usage.\n", err)
		return 2
	default:
		fmt.Fprintf(out, "error: %v\n", err)
		return 1
	}
}

// exitJitter waits before the process ends with an error, so that servers which
// share a cause do not come back all at once. A person at a terminal does not
// wait.
func exitJitter(ctx context.Context, j document.Jitter) {
	if term.IsTerminal(int(os.Stderr.Fd())) {
		return
	}
	wait := j.MinDelay.Std()
	if span := j.MaxDelay.Std() - wait; span > 0 {
		wait += rand.N(span)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
