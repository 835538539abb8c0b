package cli_test

import (
	"strings"
	"testing"

	"nstance.dev/admin/cli"
)

const held = "knc068a3cp3thz5z2mv1gejwfta01"

// TestM84_HoldsAreSetAndCleared: by hand, and shown before and after.
func TestM84_HoldsAreSetAndCleared(t *testing.T) {
	c := newConsole(t)
	if got := c.ok(t, "machine", "hold", held, "--reason", "power", "--for", "30m", "--dry-run", "-o", "name"); got != held+"\n" {
		t.Errorf("a dry run shows %q", got)
	}
	if !strings.Contains(c.err.String(), "dry run: nothing was done") {
		t.Errorf("a dry run does not say so: %q", c.err.String())
	}
	if calls := strings.Join(c.local.Calls(), " "); strings.Contains(calls, "SetHold") {
		t.Errorf("a dry run calls %s", calls)
	}
	got := c.ok(t, "machine", "hold", held, "--reason", "power")
	golden(t, "machine-hold.table", got)
	if got := c.ok(t, "instance", "list", "-o", "wide"); !strings.Contains(got, "power") {
		t.Errorf("the list shows no hold:\n%s", got)
	}
	if got := c.ok(t, "machine", "unhold", held, "--reason", "reboot", "-o", "wide"); !strings.Contains(got, "power") {
		t.Errorf("a hold for something else was cleared:\n%s", got)
	}
	if got := c.ok(t, "machine", "unhold", held, "-o", "yaml"); !strings.Contains(got, "hold: null") {
		t.Errorf("the hold is still there:\n%s", got)
	}
}

func TestHoldsThatAreRefused(t *testing.T) {
	c := newConsole(t)
	for want, args := range map[string][]string{
		`--reason "nap" must be one of reboot, repave, power`: {"hold", held, "--reason", "nap"},
		"--for -1s is negative":                               {"hold", held, "--reason", "power", "--for", "-1s"},
		`--reason "nap" must be`:                              {"unhold", held, "--reason", "nap"},
	} {
		if got := c.fails(t, cli.ExitUsage, append([]string{"machine"}, args...)...); !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", args, got, want)
		}
	}
	c.fails(t, cli.ExitFailed, "machine", "hold", "knc068a3cp3thz5z2mv1gejwfta99", "--reason", "power")
	c.local.OfBefore = true
	if got := c.fails(t, cli.ExitFailed, "machine", "hold", held, "--reason", "power"); !strings.Contains(got, "the server knows no holds; upgrade it") {
		t.Errorf("a server of before: %q", got)
	}
}
