package effective_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/server/config/configtest"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
)

func TestS12_WhatBelongsToWhom(t *testing.T) {
	several := configtest.LoadOwned(t, configtest.Owned)
	one := configtest.LoadOwned(t, strings.NewReplacer(`"b": {}, "boss": {}, "d": { "subnet_pools": ["secret-pool"] }`, "",
		`"admin_tenants": ["boss"],`, "", `, "tenants": ["b"]`, "", `, "tenants": ["b", "d"]`, "").Replace(configtest.Owned))
	for _, c := range []struct {
		cfg                  *effective.Config
		tenant               string
		templates, balancers []string
	}{
		{one, "default", []string{"listed", "ours"}, []string{"lb-listed", "lb-ours"}},
		{several, "default", []string{"ours"}, []string{"lb-ours"}},
		{several, "b", []string{"listed"}, []string{"lb-listed"}},
		{several, "d", []string{"listed"}, nil},
		{several, "boss", []string{"ours"}, []string{"lb-ours"}}, // administrators, but for what a list keeps from them
		{several, "stranger", nil, nil},
	} {
		var templates, balancers []string
		for _, key := range slices.Sorted(maps.Keys(c.cfg.Templates)) {
			if c.cfg.MayUseTemplate(c.tenant, key) {
				templates = append(templates, key)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(c.cfg.LoadBalancers)) {
			if c.cfg.MayUseLoadBalancer(c.tenant, key) {
				balancers = append(balancers, key)
			}
		}
		if diff := cmp.Diff([][]string{c.templates, c.balancers}, [][]string{templates, balancers}); diff != "" {
			t.Errorf("%s: templates, load balancers (-want +got):\n%s", c.tenant, diff)
		}
	}
}

// A tenant notices what changes for itself, and nothing of the others.
func TestS12_DigestOfATenant(t *testing.T) {
	before := configtest.LoadOwned(t, configtest.Owned)
	for _, c := range []struct {
		name     string
		old, new string
		changes  []string // the tenants that notice
	}{
		{"spaces and order", `"b": {}, "boss": {}`, `"boss": {  }, "b": {}`, nil},
		{"one more tenant", `"b": {},`, `"b": {}, "e": {}, "f": {}, "g": {}, "h": {},`, nil},
		{"a template that is open to two", `"kind": "bbb"`, `"kind": "bbc"`, []string{"b", "d"}},
		{"to whom else it is open", `["b", "d"]`, `["b", "d", "boss"]`, []string{"boss"}},
		{"a template of another tenant's groups", `"kind": "aaa"`, `"kind": "aab"`, []string{"default", "boss"}},
		{"the size of a group", `"size": 1`, `"size": 2`, []string{"default"}},
		{"a quota", `"b": {}`, `"b": { "quota": { "machines": 3 } }`, []string{"b"}},
		{"a pool of one's own", `["secret-pool"] }`, `["secret-pool", "p"] }`, []string{"d"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(configtest.Owned, c.old, c.new, 1)
			if text == configtest.Owned {
				t.Fatalf("%s is not in the configuration", c.old)
			}
			after := configtest.LoadOwned(t, text)
			var noticed []string
			for _, tenant := range []string{"b", "d", "default", "boss", "stranger"} {
				if before.DigestFor(tenant) != after.DigestFor(tenant) {
					noticed = append(noticed, tenant)
				}
			}
			if diff := cmp.Diff(c.changes, noticed); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestS12_GroupOfATemplateThatIsNotOursIsHeld(t *testing.T) {
	cfg := configtest.LoadOwned(t, configtest.Owned)
	file := &groupfile.File{}
	file.Set("b", "thief", groupfile.Entry{Template: "ours"})
	file.Set("b", "fine", groupfile.Entry{Template: "listed"})
	file.Set("b", "balanced", groupfile.Entry{Template: "listed", LoadBalancers: []string{"lb-ours"}})
	groups, _ := effective.Groups(cfg, file)
	for key, want := range map[string]string{
		"thief": `template "ours" is not configured for tenant b`, "fine": "",
		"balanced": `load balancer "lb-ours" is not configured for tenant b`,
	} {
		if got := groups[document.GroupKey{Tenant: "b", Group: key}].Blocked; got != want {
			t.Errorf("%s is blocked: %q, want %q", key, got, want)
		}
	}
}
