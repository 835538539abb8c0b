package doctor

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// skew is by how much clocks may differ before it matters: tokens are checked with half a
// minute to spare.
const skew = 5 * time.Second

// Clock compares the clock of this machine with a time that another one noted as now or
// as past. A time of the future says that one of them is wrong.
func Clock(subject string, noted, now time.Time) []Finding {
	l := &list{check: "clock"}
	switch ahead := noted.Sub(now); {
	case noted.IsZero():
		return nil
	case ahead > skew:
		l.add(Fail, subject, setClock+", and that of the other", "it is %s ahead of this machine", span(ahead))
	default:
		l.add(OK, subject, "", "it is not ahead of this machine")
	}
	return l.all
}

// View is what a leader answered. Errors are those of the calls.
type View struct {
	Config       *nstancev1.GetConfigStatusResponse
	ConfigErr    error
	Groups       []*nstancev1.GroupStatus
	GroupsErr    error
	Instances    []*nstancev1.InstanceStatus
	InstancesErr error
}

// Shard reads what a leader says of its configuration and of its groups, and whether this
// identity may ask for it.
func Shard(shard string, v View, now time.Time) []Finding {
	var newest time.Time
	for _, in := range v.Instances {
		if seen := in.GetLastSeen(); seen != nil && seen.AsTime().After(newest) {
			newest = seen.AsTime()
		}
	}
	all := Clock("leader of "+shard, newest, now)
	all = append(all, permissions(shard, v)...)
	return append(append(all, configuration(shard, v.Config)...), groups(shard, v.Groups)...)
}

func permissions(shard string, v View) []Finding {
	l := &list{check: "permissions"}
	for _, call := range []struct {
		what string
		err  error
	}{{"read the configuration's status", v.ConfigErr}, {"list groups", v.GroupsErr}, {"list instances", v.InstancesErr}} {
		switch status.Code(call.err) {
		case codes.OK:
		case codes.PermissionDenied, codes.Unauthenticated:
			l.add(Fail, shard, "take an identity of the right role and tenant; "+newIdentity, "this identity may not %s: %s", call.what, status.Convert(call.err).Message())
		default:
			l.add(Fail, shard, "look at the log of the leader", "it cannot %s: %s", call.what, status.Convert(call.err).Message())
		}
	}
	if len(l.all) == 0 {
		l.add(OK, shard, "", "this identity may see configuration, groups and instances")
	}
	return l.all
}

func configuration(shard string, c *nstancev1.GetConfigStatusResponse) []Finding {
	if c == nil {
		return nil
	}
	l := &list{check: "configuration"}
	if c.GetRejectedEtag() != "" {
		l.add(Fail, shard, "correct the stored file, check it with 'nstance-admin shard config validate', then 'nstance-admin shard config refresh'",
			"the stored one is not in force: %s", c.GetRejectedReason())
		return l.all
	}
	l.add(OK, shard, "", "the stored one is in force")
	return l.all
}

// worrying are the conditions of a group that somebody should look at, with what to do.
var worrying = map[string]string{
	"failed-launch":     "'nstance-admin group explain GROUP' says what became of the last machine",
	"files-undelivered": "'nstance-admin group describe GROUP' shows which files and why",
	"held":              "confirm the group with 'nstance-admin group confirm', or correct its template",
	"listing":           "look at the provider's own list of machines, and at the permissions of the servers there",
}

func groups(shard string, all []*nstancev1.GroupStatus) []Finding {
	l := &list{check: "groups"}
	for _, g := range all {
		for _, c := range g.GetConditions() {
			if remedy, ok := worrying[c.GetType()]; ok {
				l.add(Warn, shard+" "+g.GetKey(), remedy, "%s: %s", c.GetType(), c.GetMessage())
			}
		}
	}
	if len(l.all) == 0 && all != nil {
		l.add(OK, shard, "", "%d groups, none needs an administrator", len(all))
	}
	return l.all
}
