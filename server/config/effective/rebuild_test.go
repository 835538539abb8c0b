package effective_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"nstance.dev/server/config/configtest"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
)

func TestF11_Rebuild(t *testing.T) {
	cfg := configtest.SharedConfig(t, 1)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	web, fixed := document.GroupKey{Tenant: "t1", Group: "web"}, document.GroupKey{Tenant: "default", Group: "fixed"}
	hash := func(key document.GroupKey, entry groupfile.Entry) string {
		return groupOf(cfg, configtest.FileWith(key.Tenant, key.Group, entry), key).InfraHash
	}
	huge := groupfile.Entry{Template: "plain", InstanceType: "huge", Vars: document.Vars{"a": "1"}, Manager: "uid"}
	withSize := func(g groupfile.Entry, n int) groupfile.Entry { g.Size = configtest.Size(n); return g }
	deleted := withSize(huge, 2)
	deleted.DeletedAt = &document.Time{Time: at}
	for name, c := range map[string]struct {
		last     map[document.GroupKey]groupfile.Entry // nil: there is no copy
		recorded map[document.GroupKey]effective.Recorded
		want     map[document.GroupKey]groupfile.Entry
	}{
		"a record from before it kept the entry": {
			nil, map[document.GroupKey]effective.Recorded{web: {Size: 3, Template: "plain", InstanceType: "huge", SubnetPool: "q"}},
			map[document.GroupKey]groupfile.Entry{web: {Template: "plain", InstanceType: "huge", SubnetPool: "q", Size: configtest.Size(3)}},
		},
		"what the template says is left to it": {
			nil, map[document.GroupKey]effective.Recorded{web: {Size: 1, Template: "plain", InstanceType: "small", SubnetPool: "p"}},
			map[document.GroupKey]groupfile.Entry{web: {Template: "plain", Size: configtest.Size(1)}},
		},
		"a record with the entry": {
			nil, map[document.GroupKey]effective.Recorded{web: {Size: 3, Template: "plain", InstanceType: "huge", Entry: &huge, InfraHash: hash(web, huge)}},
			map[document.GroupKey]groupfile.Entry{web: withSize(huge, 3)},
		},
		"the copy makes the same machines: it has what changed since they were made": {
			map[document.GroupKey]groupfile.Entry{web: {Template: "plain", InstanceType: "huge", Vars: document.Vars{"a": "2"}, Size: configtest.Size(5)}},
			map[document.GroupKey]effective.Recorded{web: {Size: 3, Template: "plain", InstanceType: "huge", Entry: &huge, InfraHash: hash(web, huge)}},
			map[document.GroupKey]groupfile.Entry{web: {Template: "plain", InstanceType: "huge", Vars: document.Vars{"a": "2"}, Size: configtest.Size(3)}},
		},
		"the copy would replace the newest machine: it is older": {
			map[document.GroupKey]groupfile.Entry{web: {Template: "plain", InstanceType: "small", Size: configtest.Size(5)}},
			map[document.GroupKey]effective.Recorded{web: {Size: 3, Template: "plain", InstanceType: "huge", Entry: &huge, InfraHash: hash(web, huge)}},
			map[document.GroupKey]groupfile.Entry{web: withSize(huge, 3)},
		},
		"a group without instances is in the copy alone": {
			map[document.GroupKey]groupfile.Entry{web: withSize(huge, 0)}, nil,
			map[document.GroupKey]groupfile.Entry{web: withSize(huge, 0)},
		},
		"a group whose first machines are still to come": {
			map[document.GroupKey]groupfile.Entry{web: withSize(huge, 2)}, map[document.GroupKey]effective.Recorded{web: {Template: "plain", InfraHash: hash(web, huge)}},
			map[document.GroupKey]groupfile.Entry{web: withSize(huge, 2)},
		},
		"a deletion goes on once it is confirmed": {
			map[document.GroupKey]groupfile.Entry{web: deleted}, map[document.GroupKey]effective.Recorded{web: {Size: 2, Template: "plain", InfraHash: hash(web, huge)}},
			map[document.GroupKey]groupfile.Entry{web: deleted},
		},
		"a static group at its size": {
			nil, map[document.GroupKey]effective.Recorded{fixed: {Size: 1, Template: "plain", InstanceType: "small"}}, nil,
		},
		"a static group of another size": {
			nil, map[document.GroupKey]effective.Recorded{fixed: {Size: 6, Template: "plain", InstanceType: "small"}},
			map[document.GroupKey]groupfile.Entry{fixed: {Size: configtest.Size(6)}},
		},
		"a static group of another type": {
			nil, map[document.GroupKey]effective.Recorded{fixed: {Size: 1, Template: "plain", InstanceType: "huge"}},
			map[document.GroupKey]groupfile.Entry{fixed: {InstanceType: "huge"}},
		},
		"a static group without machines": {
			nil, map[document.GroupKey]effective.Recorded{fixed: {Template: "plain", InstanceType: "small"}}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var last *groupfile.File
			if c.last != nil {
				last = &groupfile.File{Term: 3, Paused: []groupfile.Pause{{Scope: groupfile.PauseShard, Reason: "r"}}}
				for key, entry := range c.last {
					last.Set(key.Tenant, key.Group, entry)
				}
			}
			got := effective.Rebuild(cfg, last, c.recorded, at)
			want := &groupfile.File{}
			want.Set(fixed.Tenant, fixed.Group, groupfile.Entry{}) // each static group waits
			for key, entry := range c.want {
				want.Set(key.Tenant, key.Group, entry)
			}
			for tenant, groups := range want.Groups {
				for key, entry := range groups {
					marked := *entry
					marked.Rebuilt = &document.Time{Time: at}
					want.Set(tenant, key, marked)
				}
			}
			if diff := cmp.Diff(want.Groups, got.Groups, cmpopts.IgnoreUnexported(groupfile.Entry{})); diff != "" {
				t.Error(diff)
			}
			if last != nil && (len(got.Paused) != 1 || last.Groups["t1"]["web"].Rebuilt != nil) {
				t.Errorf("pauses %v; the copy is now %v", got.Paused, last.Groups)
			}
			configtest.Reread(t, got)
		})
	}
}

func TestF11_Confirm(t *testing.T) {
	at, file := &document.Time{Time: time.Unix(1, 0)}, &groupfile.File{}
	file.Set("a", "web", groupfile.Entry{Template: "plain", Rebuilt: at})
	file.Set("a", "fixed", groupfile.Entry{Rebuilt: at})
	file.Set("a", "other", groupfile.Entry{Template: "plain"})
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
