package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/retry"
)

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := retry.Wait(t.Context(), time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("a minute took %v: %v", time.Since(began), err)
		}
		if err := retry.Wait(t.Context(), -time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("a span that is past took %v: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := retry.Wait(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute+time.Second {
			t.Errorf("the end of the context came after %v: %v", time.Since(began), err)
		}
	})
}
