package windows_test

import (
	"strings"
	"testing"
	"time"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/windows"
)

func window(cron, duration, zone string) hostsv1.Window {
	return hostsv1.Window{Cron: cron, Duration: hostsv1.Duration(duration), Timezone: zone}
}

// M96: when machines may be begun, and when the next window opens: over time zones and both changes of the clocks.
func TestM96_Open(t *testing.T) {
	nights := window("0 2 * * *", "1h", "")
	saturdays := window("0 1 * * sat", "4h", "Europe/Berlin")
	sundays := window("30 2 * * sun", "2h", "Europe/Berlin") // at 2:30 clocks change: it does not come in March, and twice in October
	for _, c := range []struct {
		name    string
		windows []hostsv1.Window
		at      string
		open    bool
		next    string // empty: none
	}{
		{"no windows", nil, "2026-11-20T12:00:00Z", true, ""},
		{"inside the only one", []hostsv1.Window{nights}, "2026-11-20T02:30:00Z", true, ""},
		{"at its first second", []hostsv1.Window{nights}, "2026-11-20T02:00:00Z", true, ""},
		{"a second before", []hostsv1.Window{nights}, "2026-11-20T01:59:59Z", false, "2026-11-20T02:00:00Z"},
		{"inside the second", []hostsv1.Window{nights, saturdays}, "2026-11-21T00:30:00Z", true, ""},
		{"at the end of one", []hostsv1.Window{nights}, "2026-11-20T03:00:00Z", false, "2026-11-21T02:00:00Z"},
		{"the earlier one comes next", []hostsv1.Window{nights, saturdays}, "2026-11-20T12:00:00Z", false, "2026-11-21T00:00:00Z"},
		{"one that never comes", []hostsv1.Window{window("0 0 30 2 *", "1h", "")}, "2026-11-20T12:00:00Z", false, ""},
		{"one that cannot be read, and one that can", []hostsv1.Window{window("?!", "1h", ""), nights}, "2026-11-20T12:00:00Z", false, "2026-11-21T02:00:00Z"},
		{"summer in Berlin", []hostsv1.Window{saturdays}, "2026-07-03T22:59:59Z", false, "2026-07-03T23:00:00Z"},
		{"clocks went back the day after", []hostsv1.Window{saturdays}, "2026-10-24T02:30:00Z", true, ""},
		{"the hour that does not come in March", []hostsv1.Window{sundays}, "2026-03-29T00:59:59Z", false, "2026-04-05T00:30:00Z"},
		{"nor is it open then", []hostsv1.Window{sundays}, "2026-03-29T01:30:00Z", false, "2026-04-05T00:30:00Z"},
		{"the hour that comes twice in October, the first time", []hostsv1.Window{sundays}, "2026-10-25T00:30:00Z", true, ""},
		{"the second time", []hostsv1.Window{sundays}, "2026-10-25T01:30:00Z", true, ""},
		{"New York", []hostsv1.Window{window("0 22 * * *", "30m", "America/New_York")}, "2026-03-08T03:10:00Z", true, ""},
		{"New York, after its change", []hostsv1.Window{window("0 22 * * *", "30m", "America/New_York")}, "2026-03-09T02:10:00Z", true, ""},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		open, next := windows.Open(c.windows, at)
		got := ""
		if !next.IsZero() {
			got = next.UTC().Format(time.RFC3339)
		}
		if open != c.open || got != c.next {
			t.Errorf("%s: open %v, next %q; want %v, %q", c.name, open, got, c.open, c.next)
		}
	}
}

// M96: what is wrong with a window is said, all of it.
func TestM96_Check(t *testing.T) {
	if err := windows.Check([]hostsv1.Window{window("0 3 * * 6", "4h", "Europe/Berlin"), window("*/5 * * * *", "1m", "")}); err != nil {
		t.Errorf("windows in order: %v", err)
	}
	err := windows.Check([]hostsv1.Window{
		window("0 3 * * 6", "4h", "Mars/Olympus"), window("0 3 * * 6", "4h", "Local"), window("0 3 * * 6", "0s", ""), window("@daily", "1h", ""),
		window("TZ=UTC 0 3 * * 6", "1h", ""), window("0 3 * *", "1h", ""), window("0 0 31 2 *", "1h", ""),
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`windows[0]: timezone: unknown time zone "Mars/Olympus"`, `windows[1]: timezone: unknown time zone "Local"`, `windows[2]: duration: "0s" must be above 0`,
		`windows[3]: cron: "@daily" must be five fields`, `windows[4]: cron: "TZ=UTC 0 3 * * 6" must be five fields`, `windows[5]: cron: "0 3 * *" must be five fields`,
		`windows[6]: cron: "0 0 31 2 *" never comes`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not said in\n%v", want, err)
		}
	}
}

// M96: no expression makes the operator stop.
func FuzzM96_Windows(f *testing.F) {
	f.Add("0 3 * * 6", "4h", "Europe/Berlin", int64(1_790_000_000))
	f.Add("@every 1s", "1m", "UTC", int64(0))
	f.Add("TZ= * * * * *", "1m", "Local", int64(1))
	f.Add("*/0 * * * *", "1ms", "", int64(-1))
	f.Fuzz(func(t *testing.T, cron, duration, zone string, at int64) {
		all := []hostsv1.Window{window(cron, duration, zone)}
		open, next := windows.Open(all, time.Unix(at%4_000_000_000, 0))
		if windows.Check(all) != nil && (open || !next.IsZero()) {
			t.Errorf("a window that cannot be read is open, or opens: %v %v", open, next)
		}
	})
}
