package provisioning

import (
	"fmt"
	"strings"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
)

// backOff reports a failed create, and blocks the group's next ones for a while.
func (l *Launcher) backOff(group fleet.GroupID, id identity.ID, kind driver.ErrorClass, err error) {
	wait := l.backoffs.block(group, l.opts.Now(), kind, err)
	l.report(group, id, kind, err)
	l.opts.Log.Warn("group is blocked: create failed, the next one waits", "tenant", group.Tenant, "group", group.Name, "class", kind, "for", wait)
	l.opts.WakeAfter(group, wait)
}

// report tells the tenant, the log and the metrics about a failed create. An
// error that repeats is said to the tenant once, until a create succeeds.
func (l *Launcher) report(group fleet.GroupID, id identity.ID, kind driver.ErrorClass, err error) {
	l.opts.Metrics.createFailed(group, kind)
	l.opts.Log.Warn("create failed", "tenant", group.Tenant, "group", group.Name, "instance", id, "class", kind, "error", err)
	same := strings.ReplaceAll(string(kind)+err.Error(), id.String(), "")
	if l.backoffs.news(group, same) {
		l.opts.Failed(group, id, string(kind), err.Error())
	}
}

// FoundSick notes that an instance was found sick that was not before, and why. It calls
// nobody.
func (l *Launcher) FoundSick(in cache.Instance, why string, at time.Time) {
	if launchFailed(in, at) {
		l.breakers.failed(in.Instance, why, at)
	}
}

// ReportSick tells the tenant of an instance that was found sick why its machine ended, where
// the provider has said so, and what follows for its group.
func (l *Launcher) ReportSick(in cache.Instance, said string) {
	now := l.opts.Now()
	if said != "" && fleet.Young(in.Instance, now) {
		l.opts.Failed(in.Group, in.ID, explain.FailedLaunch, "the machine does not run: "+said)
	}
	if launchFailed(in, now) {
		l.reportFailedLaunch(in, now)
	}
}

// launchFailed reports whether an instance that was found sick had a VM, and that
// never became of use.
func launchFailed(in cache.Instance, now time.Time) bool {
	return in.ProviderID != "" && fleet.LaunchFailed(in.Instance, now)
}

// reportFailedLaunch tells the tenant what follows from a failed launch,
// if its group makes no others for a while, or replaces none that work.
func (l *Launcher) reportFailedLaunch(row cache.Instance, now time.Time) {
	breaker := l.breakers.of(row.Group)
	if block := breaker.CreatesBlocked(l.tries(row.Group), now); block.Why != "" {
		l.reportBlocked(row, block)
	}
	block := breaker.RotationBlocked(row.InfraHash, now)
	if block.Why == "" {
		return
	}
	for _, in := range l.opts.Cache.Fleet(row.Group) {
		if in.Replacement == row.ID && in.State.Registered() {
			block.Why += fmt.Sprintf("; %s is kept, and the next try is at %s", in.ID, block.Until.UTC().Format(time.RFC3339))
			l.reportBlocked(row, block)
			return
		}
	}
}

// reportBlocked tells the tenant of an instance why its group waits.
func (l *Launcher) reportBlocked(row cache.Instance, block fleet.Block) {
	l.opts.Log.Warn("group is blocked: launches fail", "tenant", row.Group.Tenant, "group", row.Group.Name, "instance", row.ID,
		"class", block.By, "reason", block.Why)
	l.opts.Failed(row.Group, row.ID, string(block.By), block.Why)
}
