package lease

import (
	"testing"
	"time"
)

func TestMayTake(t *testing.T) {
	held := Document{LeaderID: "other", Term: 7, LeaseSeconds: 20}
	released := held
	released.Released = true
	tests := []struct {
		name  string
		lock  observation
		known standing
		want  bool
	}{
		{name: "a lock just seen", lock: observation{doc: held}},
		{name: "a lock almost stale", lock: observation{doc: held}, known: standing{unchanged: 20*time.Second - 1}},
		{name: "a lock unchanged for the lease it names", lock: observation{doc: held}, known: standing{unchanged: 20 * time.Second}, want: true},
		{name: "a released lock", lock: observation{doc: released}, want: true},
		{name: "this process led and stopped", lock: observation{doc: held}, known: standing{ours: true}, want: true},
		{name: "this server led before a restart", lock: observation{doc: held}, known: standing{reclaimed: true}, want: true},
		{name: "F10 an unreadable lock, however old", lock: observation{broken: ErrQuarantined}, known: standing{unchanged: time.Hour, ours: true}},
	}
	for _, tt := range tests {
		if why, got := mayTake(tt.lock, tt.known); got != tt.want || why == "" {
			t.Errorf("%s: %t (%q), want %t", tt.name, got, why, tt.want)
		}
	}
}
