package driver

import (
	"context"

	"nstance.dev/protos/identity"
)

// probeKind is the prefix of the ids that [Probe] asks for.
const probeKind = "prb"

// Probe finds out whether the provider can be reached and lets this server in,
// by the cheapest question there is: for one machine, which does not exist. It
// returns nil, or the error for which [Reached] is false.
func Probe(ctx context.Context, get func(context.Context, Ref) (Machine, error)) error {
	id, err := identity.NewID(probeKind)
	if err != nil {
		return err
	}
	if _, err := get(ctx, Ref{InstanceID: id}); !Reached(err) {
		return err
	}
	return nil
}
