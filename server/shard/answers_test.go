package shard

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/refusal"
)

// TestWhatCallersAreAnswered: what was refused and who has hung up is told as it is; trouble
// with storage passes, and a damaged object has to be restored.
func TestWhatCallersAreAnswered(t *testing.T) {
	refused := refusal.New(refusal.FailedPrecondition, "PAUSED", "the group is paused")
	for _, err := range []error{refused, context.Canceled, context.DeadlineExceeded} {
		if got := answerTo(fmt.Errorf("scale: %w", err)); got.Error() != "scale: "+err.Error() {
			t.Errorf("%v is answered with %v", err, got)
		}
	}
	for err, want := range map[error]refusal.Code{
		objectstore.ErrUnavailable: refusal.Unavailable, objectstore.ErrNotFound: refusal.FailedPrecondition, layout.ErrUnreadable: refusal.FailedPrecondition,
	} {
		var got *refusal.Error
		if answer := answerTo(fmt.Errorf("scale: %w", err)); !errors.As(answer, &got) || got.Code != want {
			t.Errorf("%v is answered with %+v, want %s", err, answer, want)
		}
	}
	if got := errUnknown("group", "web"); got.Code != refusal.NotFound || got.Error() != `group "web" not found` {
		t.Errorf("S12: %s: %v", got.Code, got)
	}
}
