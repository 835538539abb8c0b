// Package instances launches, finds, lists, switches and ends the machines of an account in a
// region.
//
// A machine carries the tags of package identity from its first moment; its instance id is also
// the client token, so a repeated create gives the same machine. Creates and deletes of one
// instance id take turns in the [ledger], whose mutex is held over no call.
package instances

import (
	"time"

	"nstance.dev/providers/aws/api"
)

// Instances are the machines of one account in a region. Make it with [New]. Methods are safe
// for concurrent use.
type Instances struct {
	api    *api.Client
	ledger *ledger
}

// New returns the machines behind a client. It asks nothing. now decides when what is
// remembered is too old.
func New(client *api.Client, now func() time.Time) *Instances {
	return &Instances{api: client, ledger: newLedger(now)}
}

// Lag is far above what describing calls need as a rule; Amazon promises nothing.
// Source: https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html
const Lag = 3 * time.Minute
