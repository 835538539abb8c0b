package document_test

import (
	"testing"
	"time"

	"nstance.dev/server/config/document"
)

func TestMaintenanceWindow_Open(t *testing.T) {
	w := document.MaintenanceWindow{Cron: "0 2 * * sat", Duration: document.Duration(4 * time.Hour), Timezone: "Europe/Berlin"}
	for at, want := range map[string]bool{
		"2026-11-21T00:59:59Z": false, // Saturday, 01:59:59 in Berlin
		"2026-11-21T01:00:00Z": true,
		"2026-11-21T04:59:59Z": true,
		"2026-11-21T05:00:00Z": false,
		"2026-11-22T02:00:00Z": false,
	} {
		moment, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Open(moment); got != want {
			t.Errorf("open at %s = %v", at, got)
		}
	}
}

func TestOpenWindow(t *testing.T) {
	nights := document.MaintenanceWindow{Cron: "0 2 * * *", Duration: document.Duration(time.Hour)}
	saturdays := document.MaintenanceWindow{Cron: "0 1 * * sat", Duration: document.Duration(4 * time.Hour), Timezone: "Europe/Berlin"}
	never := document.MaintenanceWindow{Cron: "0 0 30 2 *", Duration: document.Duration(time.Hour)}
	for name, c := range map[string]struct {
		windows []document.MaintenanceWindow
		at      string
		open    bool
		next    string // empty: none
	}{
		"no windows":                   {nil, "2026-11-20T12:00:00Z", true, ""},
		"inside the only one":          {[]document.MaintenanceWindow{nights}, "2026-11-20T02:30:00Z", true, ""},
		"inside the second":            {[]document.MaintenanceWindow{nights, saturdays}, "2026-11-21T00:30:00Z", true, ""},
		"at the end of one":            {[]document.MaintenanceWindow{nights}, "2026-11-20T03:00:00Z", false, "2026-11-21T02:00:00Z"},
		"the earlier one comes next":   {[]document.MaintenanceWindow{nights, saturdays}, "2026-11-20T12:00:00Z", false, "2026-11-21T00:00:00Z"},
		"one that never comes":         {[]document.MaintenanceWindow{never}, "2026-11-20T12:00:00Z", false, ""},
		"one that Load would refuse":   {[]document.MaintenanceWindow{{Cron: "?!"}, nights}, "2026-11-20T12:00:00Z", false, "2026-11-21T02:00:00Z"},
		"clocks go back in the window": {[]document.MaintenanceWindow{saturdays}, "2026-10-24T02:30:00Z", true, ""},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		open, next := document.OpenWindow(c.windows, at)
		got := ""
		if !next.IsZero() {
			got = next.UTC().Format(time.RFC3339)
		}
		if open != c.open || got != c.next {
			t.Errorf("%s: open %v, next %q", name, open, got)
		}
	}
}
