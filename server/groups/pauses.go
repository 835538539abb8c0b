package groups

import (
	"context"
	"fmt"
	"time"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/fleet"
	"nstance.dev/server/refusal"
)

// rebuiltGroup says why nothing is done in a group whose entry was rebuilt.
const rebuiltGroup = "its entry was rebuilt after the group file was lost; it goes on when its tenant changes the group, or it is confirmed (nstance-admin group confirm)"

// SetPause puts a pause in force that a tenant asks for, from now on, in the place of one of
// the same scope, and returns it (S23). Whether the tenant may pause what it names is for the
// caller to find out.
func (s *Store) SetPause(ctx context.Context, tenant string, p groupfile.Pause) (groupfile.Pause, error) {
	if _, ok := s.Find(fleet.GroupID{Tenant: tenant, Name: p.Group}); !ok && p.Scope == groupfile.PauseGroup {
		return p, errUnknown(p.Group)
	}
	now := s.opts.Now()
	p.Since = &document.Time{Time: now}
	if err := p.Check(); err != nil {
		return p, refusal.New(refusal.InvalidArgument, "INVALID_FIELD", "%v", err)
	}
	if p.Until != nil && !p.Until.After(now) {
		return p, refusal.New(refusal.InvalidArgument, "INVALID_FIELD", "until: %s is past", p.Until.Format(time.RFC3339))
	}
	err := s.writer.change(ctx, asker{tenant: tenant}, func(_ *effective.Config, file *groupfile.File) (bool, error) {
		file.SetPause(p, now)
		return true, nil
	})
	if err != nil {
		return p, refused(err)
	}
	s.opts.Log.WarnContext(ctx, "paused", "scope", p.Scope, "tenant", p.Tenant, "group", p.Group, "reason", p.Reason, "until", p.Until)
	return p, nil
}

// ClearPause ends the pause of a scope; there need not be one.
func (s *Store) ClearPause(ctx context.Context, tenant string, p groupfile.Pause) error {
	found := false
	err := s.writer.change(ctx, asker{tenant: tenant}, func(_ *effective.Config, file *groupfile.File) (bool, error) {
		found = file.ClearPause(p, s.opts.Now())
		return found, nil
	})
	if err != nil {
		return refused(err)
	}
	if found {
		s.opts.Log.WarnContext(ctx, "resumed", "scope", p.Scope, "tenant", p.Tenant, "group", p.Group)
	}
	return nil
}

// PauseOf is the widest pause in force for a group; false if none is.
func (s *Store) PauseOf(id fleet.GroupID, now time.Time) (groupfile.Pause, bool) {
	return s.now().file.PauseOf(id.Tenant, id.Name, now)
}

// Paused is what keeps everything in a group from being created or deleted because somebody
// said so, or may have: pauses stand in the group file, and while that is not known no group
// is known to go on (S23). The zero Block: nothing does.
func (s *Store) Paused(id fleet.GroupID, now time.Time) fleet.Block {
	st := s.now()
	if st.blocked != "" {
		return fleet.Block{By: fleet.BlockerUnknownGroup, Why: "whether it is paused is unknown: " + st.blocked}
	}
	if g := st.groups[id]; g != nil && g.Rebuilt {
		return fleet.Block{By: fleet.BlockerRebuilt, Why: rebuiltGroup}
	}
	p, paused := st.file.PauseOf(id.Tenant, id.Name, now)
	if !paused {
		return fleet.Block{}
	}
	block := fleet.Block{By: fleet.BlockerPaused, Why: fmt.Sprintf("the %s is paused: %s", p.Scope, p.Reason)}
	if p.Until != nil {
		block.Until = p.Until.Time
	}
	return block
}

// RefusePaused refuses what a caller asks for by name while nothing may be created or deleted
// in a group; nil: it may.
func (s *Store) RefusePaused(id fleet.GroupID) error {
	block := s.Paused(id, s.opts.Now())
	switch {
	case block.By == "":
		return nil
	case block.By == fleet.BlockerUnknownGroup:
		return refusal.New(refusal.FailedPrecondition, "GROUP_FILE_UNUSABLE", "%s", block.Why)
	case block.By == fleet.BlockerRebuilt:
		return refusal.New(refusal.FailedPrecondition, "GROUP_REBUILT", "%s", block.Why)
	case block.Until.IsZero():
		return refusal.New(refusal.FailedPrecondition, "PAUSED", "%s; resume it first", block.Why)
	default:
		return refusal.New(refusal.FailedPrecondition, "PAUSED", "%s; it ends at %s", block.Why, block.Until.UTC().Format(time.RFC3339))
	}
}
