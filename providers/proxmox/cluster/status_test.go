package cluster

import (
	"testing"

	"nstance.dev/server/driver"
)

func TestStatusOf(t *testing.T) {
	for _, c := range []struct {
		status, lock string
		want         driver.Status
	}{
		{"running", "", driver.Running},
		{"running", "backup", driver.Running},
		{"running", "migrate", driver.Running},
		{"stopped", "", driver.Stopped},
		{"stopped", "clone", driver.Pending},
		{"stopped", "create", driver.Pending},
		{"stopped", "suspended", driver.Suspended},
		{"stopped", "destroyed", driver.Deleting},
		{"paused", "", driver.Suspended},
		{"suspended", "", driver.Suspended},
		{"prelaunch", "", driver.Unknown},
		{"shutdown", "", driver.Unknown},
		{"io-error", "", driver.Unknown},
		{"internal-error", "", driver.Unknown},
		{"guest-panicked", "", driver.Unknown},
		{"unknown", "", driver.Unknown},
		{"", "", driver.Unknown},
		{"a word of a later version", "", driver.Unknown},
	} {
		if got := StatusOf(c.status, c.lock); got != c.want {
			t.Errorf("status %q with lock %q is %q, want %q", c.status, c.lock, got, c.want)
		}
	}
}
