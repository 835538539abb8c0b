package groupfile_test

import (
	"testing"
	"time"

	"nstance.dev/server/config/configtest"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/groupfile"
)

func TestRelock(t *testing.T) {
	last := document.Group{Template: "wrk", Size: configtest.Size(3), InstanceType: []string{"a"}, Vars: document.Vars{"x": "1", "y": "1"}}
	for name, c := range map[string]struct {
		before groupfile.Entry
		change func(*groupfile.Entry) // by the API, while the group was dynamic
		want   groupfile.Entry
	}{
		"nothing was set, nothing has changed": {groupfile.Entry{}, func(*groupfile.Entry) {}, groupfile.Entry{}},
		"what was set stays": {
			groupfile.Entry{Size: configtest.Size(9), InstanceType: "b", Vars: document.Vars{"x": "2", "z": "2"}, Manager: "m"}, func(*groupfile.Entry) {},
			groupfile.Entry{Size: configtest.Size(9), InstanceType: "b", Vars: document.Vars{"x": "2", "z": "2"}, Manager: "m"},
		},
		"what has changed stays": {
			groupfile.Entry{}, func(g *groupfile.Entry) {
				g.Size, g.InstanceTypes, g.Manager = configtest.Size(4), []string{"c", "d"}, "m"
				g.Vars = document.Vars{"x": "1", "y": "3"}
			},
			groupfile.Entry{Size: configtest.Size(4), InstanceTypes: []string{"c", "d"}, Vars: document.Vars{"y": "3"}, Manager: "m"},
		},
		"what a static group keeps for its file goes": {
			groupfile.Entry{}, func(g *groupfile.Entry) {
				g.Template, g.SubnetPool, g.Args = "other", "pool", map[string]any{"k": "v"}
				g.DeletedAt = &document.Time{Time: time.Unix(1, 0)}
			},
			groupfile.Entry{},
		},
	} {
		entry := groupfile.Unlock(c.before, last)
		c.change(&entry)
		got, left := groupfile.Relock(entry)
		if !got.Equal(c.want) || left == c.want.Equal(groupfile.Entry{}) {
			t.Errorf("%s: got %+v, left %v", name, got, left)
		}
	}
}
