package archtest

import (
	"testing"
	"time"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/windows"
	"nstance.dev/server/config/document"
)

// TestM96_WindowsOfRolloutsMeanTheSame: what is written as a window of a rollout opens when a maintenance window
// of a server opens that is written so, in each minute around both changes of the clocks.
func TestM96_WindowsOfRolloutsMeanTheSame(t *testing.T) {
	for _, zone := range []string{"", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"} {
		for _, cron := range []string{"0 2 * * *", "30 2 * * sun", "0 3 * * 6", "*/20 1-3 * * *", "59 23 * * *", "0 0 29 2 *", "0 2 31 10 *", "not cron"} {
			for _, span := range []time.Duration{time.Minute, 90 * time.Minute, 26 * time.Hour} {
				ours := []hostsv1.Window{{Cron: cron, Duration: hostsv1.Duration(span.String()), Timezone: zone}}
				theirs := []document.MaintenanceWindow{{Cron: cron, Duration: document.Duration(span), Timezone: zone}}
				for _, day := range []time.Time{time.Date(2026, 3, 7, 20, 0, 0, 0, time.UTC), time.Date(2026, 3, 28, 20, 0, 0, 0, time.UTC), time.Date(2026, 10, 24, 20, 0, 0, 0, time.UTC)} {
					for minute := range 12 * 6 {
						at := day.Add(time.Duration(minute) * 10 * time.Minute).Add(7 * time.Second)
						open, next := windows.Open(ours, at)
						if want, opens := document.OpenWindow(theirs, at); open != want || !next.Equal(opens) {
							t.Fatalf("%q for %s in %q at %s: open %v, next %s; a server: %v, %s", cron, span, zone, at, open, next, want, opens)
						}
					}
				}
			}
		}
	}
}
