package balancers

import (
	"context"
	"strings"
	"testing"

	"nstance.dev/providers/gcp/api"
	"nstance.dev/server/driver"
)

// A load balancer without a group that can exist is refused before anything is asked.
func TestPoolsOfALoadBalancer(t *testing.T) {
	b := New(&api.Client{})
	for name, c := range map[string]struct {
		args map[string]any
		want int    // pools
		say  string // empty: nothing is wrong
	}{
		"no group":        {nil, 0, "names no instance group and no network endpoint group"},
		"both":            {map[string]any{"instance_group_name": "ig-1", "network_endpoint_groups": []any{"neg-1", "neg-2"}}, 3, ""},
		"no group's name": {map[string]any{"instance_group_name": "zones/z/instanceGroups/ig-1"}, 0, "is not a group name"},
	} {
		pools, err := b.pools(opMembers, driver.LoadBalancer{Key: "web", Args: c.args})
		if len(pools) != c.want || (err == nil) != (c.say == "") {
			t.Errorf("%s: %d pools, %v; want %d", name, len(pools), err, c.want)
		}
		if err != nil && (driver.ClassOf(err) != driver.MissingRef || !strings.Contains(err.Error(), c.say)) {
			t.Errorf("%s: %v, want an error of class %s with %q", name, err, driver.MissingRef, c.say)
		}
	}
}

// gone is a pool that a machine leaves while it is taken out.
type gone struct{ looks int }

func (g *gone) members(context.Context, string) ([]member, error) {
	g.looks++
	if g.looks > 1 {
		return nil, nil
	}
	return []member{{name: "a", out: func(context.Context) error { return driver.Fail(driver.Invalid, opDeregister, context.Canceled) }}}, nil
}

func (g *gone) add(context.Context, string) error { return nil }

func TestTakingOutAMachineThatIsTakenOutMeanwhile(t *testing.T) {
	if err := takeOut(t.Context(), &gone{}, "a"); err != nil {
		t.Errorf("the machine is out, and the answer is %v", err)
	}
	if err := takeOut(t.Context(), &gone{}, "another"); err != nil {
		t.Errorf("a machine that is not in it: %v", err)
	}
}
