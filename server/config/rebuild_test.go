package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestF11_Rebuild(t *testing.T) {
	cfg := sharedConfig(t, 1)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	web, fixed := GroupKey{"t1", "web"}, GroupKey{"default", "fixed"}
	hash := func(key GroupKey, entry DynamicGroup) string { return cfg.infraHash(key, entry) }
	huge := DynamicGroup{Template: "plain", InstanceType: "huge", Vars: Vars{"a": "1"}, Manager: "uid"}
	withSize := func(g DynamicGroup, n int) DynamicGroup { g.Size = size(n); return g }
	deleted := withSize(huge, 2)
	deleted.DeletedAt = &Time{at}
	for name, c := range map[string]struct {
		last     map[GroupKey]DynamicGroup // nil: there is no copy
		recorded map[GroupKey]Recorded
		want     map[GroupKey]DynamicGroup
	}{
		"a record from before it kept the entry": {
			nil, map[GroupKey]Recorded{web: {Size: 3, Template: "plain", InstanceType: "huge", SubnetPool: "q"}},
			map[GroupKey]DynamicGroup{web: {Template: "plain", InstanceType: "huge", SubnetPool: "q", Size: size(3)}},
		},
		"what the template says is left to it": {
			nil, map[GroupKey]Recorded{web: {Size: 1, Template: "plain", InstanceType: "small", SubnetPool: "p"}},
			map[GroupKey]DynamicGroup{web: {Template: "plain", Size: size(1)}},
		},
		"a record with the entry": {
			nil, map[GroupKey]Recorded{web: {Size: 3, Template: "plain", InstanceType: "huge", Entry: &huge, InfraHash: hash(web, huge)}},
			map[GroupKey]DynamicGroup{web: withSize(huge, 3)},
		},
		"the copy makes the same machines: it has what changed since they were made": {
			map[GroupKey]DynamicGroup{web: {Template: "plain", InstanceType: "huge", Vars: Vars{"a": "2"}, Size: size(5)}},
			map[GroupKey]Recorded{web: {Size: 3, Template: "plain", InstanceType: "huge", Entry: &huge, InfraHash: hash(web, huge)}},
			map[GroupKey]DynamicGroup{web: {Template: "plain", InstanceType: "huge", Vars: Vars{"a": "2"}, Size: size(3)}},
		},
		"the copy would replace the newest machine: it is older": {
			map[GroupKey]DynamicGroup{web: {Template: "plain", InstanceType: "small", Size: size(5)}},
			map[GroupKey]Recorded{web: {Size: 3, Template: "plain", InstanceType: "huge", Entry: &huge, InfraHash: hash(web, huge)}},
			map[GroupKey]DynamicGroup{web: withSize(huge, 3)},
		},
		"a group without instances is in the copy alone": {
			map[GroupKey]DynamicGroup{web: withSize(huge, 0)}, nil,
			map[GroupKey]DynamicGroup{web: withSize(huge, 0)},
		},
		"a group whose first machines are still to come": {
			map[GroupKey]DynamicGroup{web: withSize(huge, 2)}, map[GroupKey]Recorded{web: {Template: "plain", InfraHash: hash(web, huge)}},
			map[GroupKey]DynamicGroup{web: withSize(huge, 2)},
		},
		"a deletion goes on once it is confirmed": {
			map[GroupKey]DynamicGroup{web: deleted}, map[GroupKey]Recorded{web: {Size: 2, Template: "plain", InfraHash: hash(web, huge)}},
			map[GroupKey]DynamicGroup{web: deleted},
		},
		"a static group at its size": {
			nil, map[GroupKey]Recorded{fixed: {Size: 1, Template: "plain", InstanceType: "small"}}, nil,
		},
		"a static group of another size": {
			nil, map[GroupKey]Recorded{fixed: {Size: 6, Template: "plain", InstanceType: "small"}},
			map[GroupKey]DynamicGroup{fixed: {Size: size(6)}},
		},
		"a static group of another type": {
			nil, map[GroupKey]Recorded{fixed: {Size: 1, Template: "plain", InstanceType: "huge"}},
			map[GroupKey]DynamicGroup{fixed: {InstanceType: "huge"}},
		},
		"a static group without machines": {
			nil, map[GroupKey]Recorded{fixed: {Template: "plain", InstanceType: "small"}}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var last *GroupFile
			if c.last != nil {
				last = &GroupFile{Term: 3, Paused: []Pause{{Scope: PauseShard, Reason: "r"}}}
				for key, entry := range c.last {
					last.Set(key.Tenant, key.Group, entry)
				}
			}
			got := Rebuild(cfg, last, c.recorded, at)
			want := &GroupFile{}
			want.Set(fixed.Tenant, fixed.Group, DynamicGroup{}) // each static group waits
			for key, entry := range c.want {
				want.Set(key.Tenant, key.Group, entry)
			}
			for tenant, groups := range want.Groups {
				for key, entry := range groups {
					marked := *entry
					marked.Rebuilt = &Time{at}
					want.Set(tenant, key, marked)
				}
			}
			if diff := cmp.Diff(want.Groups, got.Groups, cmpopts.IgnoreUnexported(DynamicGroup{})); diff != "" {
				t.Error(diff)
			}
			if last != nil && (len(got.Paused) != 1 || last.Groups["t1"]["web"].Rebuilt != nil) {
				t.Errorf("pauses %v; the copy is now %v", got.Paused, last.Groups)
			}
			reread(t, got)
		})
	}
}

func TestF11_Confirm(t *testing.T) {
	at, file := &Time{time.Unix(1, 0)}, &GroupFile{}
	file.Set("a", "web", DynamicGroup{Template: "plain", Rebuilt: at})
	file.Set("a", "fixed", DynamicGroup{Rebuilt: at})
	file.Set("a", "other", DynamicGroup{Template: "plain"})
	for key, waited := range map[string]bool{"web": true, "fixed": true, "other": false, "none": false} {
		if got := file.Confirm("a", key); got != waited {
			t.Errorf("%s had waited: %v, want %v", key, got, waited)
		}
	}
	if entry, _ := file.Group("a", "web"); entry.Rebuilt != nil || entry.Template != "plain" {
		t.Errorf("a confirmed group is %+v", entry)
	}
	if _, left := file.Group("a", "fixed"); left {
		t.Error("an entry that says nothing is left")
	}
}
