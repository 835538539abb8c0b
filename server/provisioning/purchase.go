package provisioning

import (
	"context"
	"fmt"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
)

// Buy makes one new instance durable and queues its create call, as [Launcher.Launch] does. It waits for
// what has to be looked up, and neither waits for the group nor holds anything against it: who buys
// knows what else there is. The error is one of storage or of ctx, or it has a class: then
// nothing was made. How the create ends, the Refused of the [Purchase] and the end of the instance tell.
func (l *Launcher) Buy(ctx context.Context, id identity.ID, eff *effective.Group, p Purchase) error {
	group := fleet.GroupID{Tenant: eff.Tenant, Name: eff.Key}
	one := *eff
	one.InstanceTypes = []string{p.InstanceType}
	for {
		s, missing, err := l.resolver.resolve(&one)
		if err != nil {
			l.report(group, "", driver.ClassOf(err), err)
			return fmt.Errorf("buy %s: %w", p.InstanceType, err)
		}
		if len(missing) == 0 {
			return l.buy(ctx, id, &one, s, p)
		}
		if err := l.resolver.dependencies.awaitAll(ctx, missing); err != nil {
			return fmt.Errorf("buy %s: %w", p.InstanceType, err)
		}
	}
}

func (l *Launcher) buy(ctx context.Context, id identity.ID, eff *effective.Group, s *launchInputs, p Purchase) error {
	it, err := l.prepare(ctx, id, eff, s, Request{purchase: &p})
	if it == nil {
		s.claim.Dropped()
		return fmt.Errorf("buy %s: %w", p.InstanceType, err)
	}
	l.enqueue(it)
	return nil
}
