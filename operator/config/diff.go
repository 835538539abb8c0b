package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrFixed is matched by the error about a change that needs a restart.
var ErrFixed = errors.New("this cannot change while the operator runs")

// Change is what a new configuration changes. The zero value changes nothing.
type Change struct {
	Added       []string // names of shards, in the order of the new configuration
	Removed     []string // in the order of the old one
	Readdressed []string // shards with other addresses of either service, in the new order
	Reordered   bool     // the shards that stay stand in another order
	Moved       []string // shards with another zone or region, in the new order
	Import      bool     // another value of Config.Import
}

// Empty reports whether nothing changes.
func (c Change) Empty() bool {
	return len(c.Added) == 0 && len(c.Removed) == 0 && len(c.Readdressed) == 0 && !c.Reordered && len(c.Moved) == 0 && !c.Import
}

// Diff compares two valid configurations. Whose machines the operator looks after cannot
// change under its feet: another cluster or tenant is an error that matches [ErrFixed].
func Diff(old, next Config) (Change, error) {
	var fixed []string
	if old.ClusterID != next.ClusterID {
		fixed = append(fixed, fmt.Sprintf("cluster_id from %q to %q", old.ClusterID, next.ClusterID))
	}
	if old.Tenant != next.Tenant {
		fixed = append(fixed, fmt.Sprintf("tenant from %q to %q", old.Tenant, next.Tenant))
	}
	if len(fixed) > 0 {
		return Change{}, fmt.Errorf("%w: %s; restart it, with a registration for the new one", ErrFixed, strings.Join(fixed, ", "))
	}
	return diff(old, next), nil
}

func diff(old, next Config) Change {
	var c Change
	var before, after []string // the shards in both, in each order
	for _, s := range old.Shards {
		if _, ok := next.Find(s.Name); ok {
			before = append(before, s.Name)
		} else {
			c.Removed = append(c.Removed, s.Name)
		}
	}
	for _, s := range next.Shards {
		was, ok := old.Find(s.Name)
		if !ok {
			c.Added = append(c.Added, s.Name)
			continue
		}
		after = append(after, s.Name)
		if !slices.Equal(was.Operator, s.Operator) || !slices.Equal(was.Registration, s.Registration) {
			c.Readdressed = append(c.Readdressed, s.Name)
		}
		if was.Zone != s.Zone || was.Region != s.Region {
			c.Moved = append(c.Moved, s.Name)
		}
	}
	c.Reordered = !slices.Equal(before, after)
	c.Import = old.Import.Enabled != next.Import.Enabled || old.Import.Pools != next.Import.Pools ||
		!slices.Equal(old.Import.Exclude, next.Import.Exclude)
	return c
}
