package filesync

import (
	"log/slog"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/pki"
	"nstance.dev/server/render"
	"nstance.dev/server/secrets"
)

// Line leads to the agent of one machine, for as long as one stream lasts. Its
// methods do not wait. Whoever owns it calls [Syncer.Wake] when there is room
// again after an offer that did not fit.
type Line interface {
	// Offer queues a message and reports whether there was room for it.
	Offer(*nstancev1.ServerMessage) bool
	// Room is how many more messages would fit if they were small. Zero counts as
	// an offer that did not fit.
	Room() int
}

// Machine is what a machine is to have, and what its templates may refer to.
type Machine struct {
	Group        fleet.GroupID
	Config       *effective.Group
	Certificates map[string]document.Certificate
	Data         render.Data
}

// Options are what a [Syncer] works with. All but Now are required.
type Options struct {
	Shard     string
	Term      uint64
	Store     objectstore.Store // the shard's: the log of certificates, and what files come from
	Secrets   func() secrets.Store
	From      func() layout.FileSources // the objects that files may come from now
	Cache     *cache.Cache              // of the machines; the rows of their files are written
	Authority func() *pki.Authority
	// Describe returns what a machine is to have; false: it is to be left alone.
	Describe func(identity.ID) (Machine, bool)
	// Generation grows whenever what Describe returns may have changed for any
	// machine whose group was not named to Changed.
	Generation func() uint64
	// Trouble tells the machine's tenant that a file cannot be brought, once for
	// each reason.
	Trouble func(id identity.ID, group fleet.GroupID, text string)
	// UndeliveredChanged says that [Syncer.Undelivered] of a group has changed.
	UndeliveredChanged func(group fleet.GroupID)
	Metrics            *Metrics
	Log                *slog.Logger
	Now                func() time.Time // time.Now
}
