package preflight_test

import (
	"testing"

	"nstance.dev/agent/paver/preflight"
)

func TestSystemdVersion(t *testing.T) {
	for text, want := range map[string]int{
		"systemd 252 (252.39-1~deb12u1)\n+PAM": 252, "systemd 257~rc1 (257~rc1-1)": 257, "systemd 250": 250, "systemd": 0, "": 0, "systemd x": 0, "nspawn 252": 0,
	} {
		got, err := preflight.SystemdVersion(text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}
