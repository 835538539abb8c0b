package shard

import (
	"context"

	"nstance.dev/server/config"
	"nstance.dev/server/driver"
	"nstance.dev/server/placement"
)

// wishOf is what a group lets its machines be made of.
func wishOf(eff *config.EffectiveGroup) placement.Wish {
	return placement.Wish{Types: eff.InstanceTypes, Subnets: eff.Subnets}
}

// room is the question how much room a subnet has.
func (r *Reign) room(subnet string) need {
	return need{
		name: "subnet " + subnet, what: "how much room subnet " + subnet + " has",
		ask: func(ctx context.Context) { r.askRoom(ctx, subnet) },
	}
}

// askRoom asks the provider about a subnet. Where it does not say, a create is
// the better question: that is answered for certain.
func (r *Reign) askRoom(ctx context.Context, subnet string) {
	r.book.Asking(subnet)
	free, err := r.provider.CheckSubnet(ctx, subnet)
	switch kind := driver.KindOf(err); {
	case err == nil:
		r.book.Answer(subnet, free, r.now())
	case r.stumble(err) || ctx.Err() != nil:
	case kind == driver.MissingRef || kind == driver.Invalid:
		r.log.WarnContext(ctx, "no machine can be made in a subnet", "subnet", subnet, "error", err)
		r.book.Missing(subnet, "cannot be used: "+err.Error(), r.now())
	default:
		r.log.WarnContext(ctx, "room of a subnet not known; a create will show", "subnet", subnet, "error", err)
		r.book.Answer(subnet, -1, r.now())
	}
}
