package requests_test

import (
	"errors"
	"strings"
	"testing"

	"nstance.dev/server/config/configtest"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/requests"
)

// What a tenant may not use is answered like a name that nobody has written, and no answer
// contains a name that is not the tenant's.
func TestS12_WhatIsNotOursDoesNotExist(t *testing.T) {
	cfg := configtest.LoadOwned(t, configtest.Owned)
	file := &groupfile.File{}
	file.Set("b", "mine", groupfile.Entry{Template: "listed"})
	for _, c := range []struct {
		name           string
		theirs, nobody requests.GroupChange
		as             string // how the name of the second is spelt in the first
		instead        string
	}{
		{"template", requests.GroupChange{Template: "ours"}, requests.GroupChange{Template: "ourz"}, "ours", "ourz"},
		{"load balancer", requests.GroupChange{Template: "listed", LoadBalancers: []string{"lb-ours"}},
			requests.GroupChange{Template: "listed", LoadBalancers: []string{"lb-ourz"}}, "lb-ours", "lb-ourz"},
		{"pool", requests.GroupChange{Template: "listed", SubnetPool: "secret-pool"},
			requests.GroupChange{Template: "listed", SubnetPool: "secret-poor"}, "secret-pool", "secret-poor"},
	} {
		_, theirs := requests.CheckUpsert(cfg, file, "b", "new", c.theirs)
		_, nobody := requests.CheckUpsert(cfg, file, "b", "new", c.nobody)
		if theirs == nil || nobody == nil {
			t.Errorf("%s: accepted: %v, %v", c.name, theirs, nobody)
			continue
		}
		if got, want := strings.ReplaceAll(theirs.Error(), c.as, c.instead), nobody.Error(); got != want {
			t.Errorf("%s: %q differs from %q", c.name, theirs, nobody)
		}
		req := effective.InstanceRequest{Template: c.theirs.Template, SubnetPool: c.theirs.SubnetPool, LoadBalancers: c.theirs.LoadBalancers}
		if _, err := requests.CheckInstance(cfg, file, "b", "mine", req); err == nil || strings.ReplaceAll(err.Error(), c.as, c.instead) != nobody.Error() {
			t.Errorf("%s of an instance: %v, want %q", c.name, err, nobody)
		}
	}
	if _, err := requests.CheckUpsert(cfg, file, "d", "new", requests.GroupChange{Template: "listed", SubnetPool: "secret-pool"}); err != nil {
		t.Errorf("tenant d may use its own pool: %v", err)
	}
	if _, err := requests.CheckUpsert(cfg, file, "d", "new", requests.GroupChange{Template: "listed", SubnetPool: "p"}); err == nil {
		t.Error("tenant d may use a pool that is not on its list")
	}
}

// A group that leaves the configuration keeps what that gave it, whoever its tenant is.
func TestS12_UnlockedGroupKeepsWhatItWasGiven(t *testing.T) {
	cfg := configtest.LoadOwned(t, configtest.Owned)
	size := 3
	last := document.Group{Template: "ours", LoadBalancers: []string{"lb-ours"}, Args: map[string]any{"Role": "admin"}}
	file := &groupfile.File{}
	file.Set("b", "was", groupfile.Unlock(groupfile.Entry{}, last))
	if g, _ := cfg.Group(file, document.GroupKey{Tenant: "b", Group: "was"}); g.Blocked != "" {
		t.Errorf("held: %s", g.Blocked)
	}
	if _, err := requests.CheckUpsert(cfg, file, "b", "was", requests.GroupChange{Size: &size}); err != nil {
		t.Errorf("scaled: %v", err)
	}
	if _, err := requests.CheckUpsert(cfg, file, "b", "was", requests.GroupChange{Args: map[string]any{"Role": "root"}}); err == nil {
		t.Error("its sensitive argument was changed")
	}
	if _, err := requests.CheckUpsert(cfg, file, "b", "was", requests.GroupChange{Template: "listed"}); err == nil {
		t.Error("its sensitive argument went along to another template")
	}
	if _, err := requests.CheckUpsert(cfg, file, "b", "other", requests.GroupChange{Template: "ours"}); err == nil {
		t.Error("another group of the tenant got the template")
	}
}

func TestS12_SensitiveArguments(t *testing.T) {
	cfg := configtest.LoadOwned(t, configtest.Owned)
	file := &groupfile.File{}
	file.Set("b", "old", groupfile.Entry{Template: "listed", Args: map[string]any{"Role": "a"}})
	for _, c := range []struct {
		name, group string
		args        map[string]any
		refused     bool
	}{
		{"plain", "new", map[string]any{"Plain": 1}, false},
		{"allowed by the template", "new", map[string]any{"Allowed": 1}, false},
		{"carries rights", "new", map[string]any{"Role": "a"}, true},
		{"in other letters", "new", map[string]any{"plain": 1}, true},
		{"not known to the provider", "new", map[string]any{"Nonsense": 1}, true},
		{"there already", "old", map[string]any{"Role": "a", "Plain": 1}, false},
		{"there already, changed", "old", map[string]any{"Role": "b"}, true},
		{"taken away", "old", map[string]any{}, false},
	} {
		_, err := requests.CheckUpsert(cfg, file, "b", c.group, requests.GroupChange{Template: "listed", Args: c.args})
		if invalid := new(groupfile.InvalidError); (err != nil) != c.refused || c.refused && (!errors.As(err, &invalid) || invalid.Field != "args") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	one := configtest.LoadOwned(t, `{
  "server": { "cluster_id": "c", "shard": "s", "provider": { "kind": "local", "zone": "z" }, "subnet_pools": { "p": ["n"] } },
  "templates": { "t": { "kind": "aaa", "arch": "amd64", "instance_type": "small", "subnet_pool": "p" } } }`)
	if _, err := requests.CheckUpsert(one, nil, "default", "g", requests.GroupChange{Template: "t", Args: map[string]any{"Role": "a"}}); err != nil {
		t.Errorf("the only tenant: %v", err)
	}
}
