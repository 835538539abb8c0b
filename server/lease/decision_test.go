package lease

import (
	"testing"
	"time"
)

func TestDecide(t *testing.T) {
	held := Document{LeaderID: "other", Term: 7, LeaseSeconds: 20}
	released := held
	released.Released = true
	tests := []struct {
		name  string
		lock  observation
		known standing
		want  move
	}{
		{name: "a lock just seen", lock: observation{etag: "e", doc: held}},
		{name: "a lock almost stale", lock: observation{etag: "e", doc: held}, known: standing{unchanged: 20*time.Second - 1}},
		{name: "a lock unchanged for the lease it names", lock: observation{etag: "e", doc: held}, known: standing{unchanged: 20 * time.Second}, want: moveTake},
		{name: "a released lock", lock: observation{etag: "e", doc: released}, want: moveTake},
		{name: "this process led and stopped", lock: observation{etag: "e", doc: held}, known: standing{ours: true}, want: moveTake},
		{name: "this server led before a restart", lock: observation{etag: "e", doc: held}, known: standing{reclaimed: true}, want: moveTake},
		{name: "F10 an unreadable lock, however old", lock: observation{etag: "e", broken: ErrQuarantined}, known: standing{unchanged: time.Hour, ours: true}},
		{name: "no lock, and nothing below it", known: standing{fresh: true}, want: moveTake},
		{name: "no lock, and a leader that may still act", want: moveClaim},
		{name: "a leader that answers, of however old a version", lock: observation{heard: true, doc: held}, known: standing{unchanged: time.Hour}},
		{name: "a stale lock, after a resignation", lock: observation{etag: "e", doc: held}, known: standing{out: true, unchanged: time.Hour}},
		{name: "no lock, after a resignation", known: standing{out: true, fresh: true}},
	}
	for _, tt := range tests {
		if got, why := decide(tt.lock, tt.known); got != tt.want || why == "" {
			t.Errorf("%s: %d (%q), want %d", tt.name, got, why, tt.want)
		}
	}
}
