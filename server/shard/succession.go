package shard

import (
	"context"
	"errors"

	"nstance.dev/protos/identity"
	"nstance.dev/server/bucket"
	"nstance.dev/server/cache"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/refusal"
)

// linkSuccessors restores who was made to take whose place: the record of the
// successor says so, from before its VM was asked for. What one leader began the
// next one goes on with.
func (r *Reign) linkSuccessors() {
	for _, rec := range r.records.successors() { // the last of several counts
		r.linkSuccessor(rec)
	}
}

// linkSuccessor does so for one record. An instance between two others that is on
// its way out does not part them.
func (r *Reign) linkSuccessor(rec bucket.InstanceRecord) {
	if rec.Deletion != nil {
		return
	}
	for _, of := range r.records.predecessors(rec) {
		if err := r.setReplacement(of, rec.ID); err != nil {
			r.log.Warn("replacement not linked", "instance", of, "replacement", rec.ID, "error", err)
		}
	}
}

// handOn prepares the end of an instance. If it was to take another one's place, its
// own successor does from now on, and says so in its record: the link between those
// two must not end with what stood between them (S16).
func (r *Reign) handOn(ctx context.Context, id identity.ID) error {
	rec, _ := r.records.get(id)
	row, _ := r.cache.Instance(id)
	first, waits := r.known(rec.Replaces)
	if !waits || row.Replacement == "" || first.Replacement != id && first.Replacement != row.Replacement {
		return nil
	}
	_, err := r.records.update(ctx, row.Replacement, func(heir *bucket.InstanceRecord) error {
		if heir.Replaces == id {
			heir.Replaces = first.ID
		}
		return nil
	})
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.setReplacement(first.ID, row.Replacement)
}

// setReplacement notes who takes the place of an instance, which may have ended.
func (r *Reign) setReplacement(of, by identity.ID) error {
	_, err := r.cache.Update(of, func(in *cache.Instance) error {
		in.Replacement = by
		return nil
	})
	return ignoreUnknown(err)
}

// replaceNamed makes a caller's wish durable that an instance be replaced, and
// deleted once that is done (S15). Repeats change nothing.
func (r *Reign) replaceNamed(in cache.Instance, skipDrain bool) error {
	if in.OnDemand {
		return refusal.New(refusal.FailedPrecondition, "NOT_REPLACED", "instance %s was made on demand: nothing replaces it; delete it without replace_first", in.ID)
	}
	switch {
	case in.State.Leaving() && in.Removal.Revocable():
		return r.confirmRemoval(in.ID)
	case in.State.Leaving():
		return nil
	}
	_, err := r.records.update(r.ctx, in.ID, func(rec *bucket.InstanceRecord) error {
		if rec.Replace == nil || skipDrain && !rec.Replace.SkipDrain {
			rec.Replace = &bucket.ReplaceRequest{RequestedAt: bucket.At(r.now()), SkipDrain: skipDrain}
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = r.cache.Update(in.ID, func(in *cache.Instance) error {
		in.ReplaceFirst, in.SkipDrain = true, in.SkipDrain || skipDrain
		return nil
	})
	r.Enqueue(in.Group)
	return ignoreUnknown(err)
}
