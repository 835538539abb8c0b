package cli_test

import (
	"strings"
	"testing"

	"nstance.dev/admin/cli"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// withUnmanaged returns a console whose shard has two unmanaged machines.
func withUnmanaged(t *testing.T) *console {
	t.Helper()
	c := newConsole(t)
	c.local.Hold(&nstancev1.HeldVM{ProviderInstanceId: "i-1", InstanceId: "knc068a3cp3thz5z2mv1gejwft90", Tenant: "default", Group: "web", Reason: "no-record"})
	c.local.Hold(&nstancev1.HeldVM{ProviderInstanceId: "i-2", InstanceId: "who?", Reason: "bad-instance-id"})
	return c
}

func TestListUnmanaged(t *testing.T) {
	for _, format := range []string{"table", "wide", "json", "yaml", "name"} {
		c := withUnmanaged(t)
		golden(t, "instance-list-unmanaged."+format, c.ok(t, "instance", "list", "--unmanaged", "-o", format))
	}
	c := withUnmanaged(t)
	if got := c.ok(t, "instance", "list", "--unmanaged", "-g", "web", "-o", "name"); got != "i-1\n" {
		t.Errorf("unmanaged of group web: %q", got)
	}
	if got := c.fails(t, cli.ExitUsage, "instance", "list", "--unmanaged", "--watch"); !strings.Contains(got, "watch") {
		t.Errorf("--unmanaged --watch: %q", got)
	}
}

// The flag has a name of before, which goes on to work and is not shown.
func TestUnmanagedByItsNameOfBefore(t *testing.T) {
	c := withUnmanaged(t)
	want := c.ok(t, "instance", "list", "--unmanaged")
	if got := c.ok(t, "instance", "list", "--held"); got != want {
		t.Errorf("--held: %q, want %q", got, want)
	}
	c.fails(t, cli.ExitUsage, "instance", "list", "--held", "--watch")
	if help := c.ok(t, "instance", "list", "--help"); strings.Contains(help, "--held") || !strings.Contains(help, "--unmanaged") {
		t.Errorf("help: %s", help)
	}
}

func TestAdopt(t *testing.T) {
	c := withUnmanaged(t)
	want := "machine i-1: adopted as instance knc068a3cp3thz5z2mv1gejwft90 of group web, tenant default\n"
	if got := c.ok(t, "instance", "adopt", "i-1"); got != want {
		t.Errorf("adopt printed %q, want %q", got, want)
	}
	if got := c.ok(t, "instance", "list", "-o", "name"); !strings.Contains(got, "knc068a3cp3thz5z2mv1gejwft90") {
		t.Errorf("not among the instances: %q", got)
	}
}

// TestAdoptTriesAll: one that cannot be adopted does not keep the others back.
func TestAdoptTriesAll(t *testing.T) {
	c := withUnmanaged(t)
	got := c.fails(t, cli.ExitFailed, "instance", "adopt", "i-2", "i-9", "i-1")
	for _, part := range []string{"machine i-2: ", "do not name a tenant", "machine i-9: ", "is unmanaged"} {
		if !strings.Contains(got, part) {
			t.Errorf("errors without %q:\n%s", part, got)
		}
	}
	if !strings.Contains(c.out.String(), "machine i-1: adopted") {
		t.Errorf("the third was not tried: %q", c.out.String())
	}
}
