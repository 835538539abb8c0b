package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
)

func TestTheLifeOfAnInstance(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	whole := cache.Instance{Instance: fleet.Instance{
		State: fleet.Deleted, Created: at(0), RegisteredAt: at(2),
		Removal: fleet.Removal{Reason: fleet.ReasonRequested, RequestedAt: at(10), DrainStarted: at(10), DeleteAt: at(20)},
	}, DeletedAt: at(14)}
	only := func(change func(*cache.Instance)) cache.Instance {
		in := whole
		in.State, in.Removal, in.DeletedAt = fleet.Running, fleet.Removal{}, time.Time{}
		change(&in)
		return in
	}
	record := layout.InstanceRecord{LaunchedAt: layout.At(at(1))}
	drained := record
	drained.Deletion = &layout.Deletion{DrainAckedAt: layout.At(at(12))}
	for _, c := range []struct {
		name      string
		in        cache.Instance
		record    layout.InstanceRecord
		decisions []explain.Decision
		want      []Step
	}{
		{"one that has just been recorded", only(func(in *cache.Instance) { in.State, in.RegisteredAt = fleet.Pending, time.Time{} }),
			layout.InstanceRecord{}, nil, []Step{{Created, at(0)}}},
		{"one that runs", only(func(*cache.Instance) {}), record, nil, []Step{{Created, at(0)}, {Launched, at(1)}, {Registered, at(2)}}},
		{"one that an earlier version made", only(func(*cache.Instance) {}), layout.InstanceRecord{}, nil, []Step{{Created, at(0)}, {Registered, at(2)}}},
		{"a whole life", whole, drained, []explain.Decision{
			{Action: explain.Delete, At: at(11), BlockedBy: "paused"}, {Action: explain.Condemn, At: at(10)}, {Action: explain.Delete, At: at(13)},
		}, []Step{
			{Created, at(0)}, {Launched, at(1)}, {Registered, at(2)}, {Condemned, at(10)}, {Draining, at(10)}, {Drained, at(12)},
			{Terminating, at(13)}, {Deleted, at(14)},
		}},
		{"an end without a drain, confirmed by a caller", only(func(in *cache.Instance) {
			in.State, in.Removal = fleet.Deleting, fleet.Removal{Reason: fleet.ReasonRequested, RequestedAt: at(10)}
		}), drained, nil, []Step{{Created, at(0)}, {Launched, at(1)}, {Registered, at(2)}, {Condemned, at(10)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t, nil)
			d.opts.Record = func(identity.ID) (layout.InstanceRecord, bool) { return c.record, true }
			id, err := d.ids.NewID("vmx")
			if err != nil {
				t.Fatal(err)
			}
			c.in.ID, c.in.Group = id, web
			other, err := d.ids.NewID("vmx")
			if err != nil {
				t.Fatal(err)
			}
			d.rows.AddDecision(explain.Decision{Group: web, Instance: other, Action: explain.Delete, At: at(1)})
			for _, decision := range c.decisions {
				decision.Group, decision.Instance = web, id
				d.rows.AddDecision(decision)
			}
			if diff := cmp.Diff(c.want, d.Detailed(c.in).Life); diff != "" {
				t.Errorf("life (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheFilesOfAnInstance(t *testing.T) {
	d := newDesk(t, nil)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	d.opts.Now = func() time.Time { return now }
	d.opts.Files = func(identity.ID) []File {
		return []File{{Name: "app.env", Kind: "env", Current: true}, {Name: "node.crt", Kind: "certificate"}}
	}
	in := cache.Instance{CertNotAfter: now.Add(time.Hour)}
	want := []File{
		{Name: "app.env", Kind: "env", Current: true}, {Name: AgentCertificate, Kind: "certificate", Current: true, Ends: now.Add(time.Hour)},
		{Name: "node.crt", Kind: "certificate"},
	}
	if diff := cmp.Diff(want, d.Detailed(in).Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	in.CertNotAfter = now
	if own := d.Detailed(in).Files[1]; own.Current {
		t.Errorf("a certificate that has ended is current: %+v", own)
	}
	if d.Instance(in).Details != nil {
		t.Error("a row of a list has details")
	}
}
