package shard

import (
	"google.golang.org/grpc/codes"

	"nstance.dev/protos/identity"
	"nstance.dev/server/bucket"
	"nstance.dev/server/cache"
)

// linkSuccessors restores who was made to take whose place: the record of the
// successor says so, from before its VM was asked for. What one leader began the
// next one goes on with.
func (r *Reign) linkSuccessors() {
	for _, rec := range r.records.successors() { // the last of several counts
		r.linkSuccessor(rec)
	}
}

func (r *Reign) linkSuccessor(rec bucket.InstanceRecord) {
	if rec.Replaces == "" || rec.Deletion != nil {
		return
	}
	if err := r.setReplacement(rec.Replaces, rec.ID); err != nil {
		r.log.Warn("replacement not linked", "instance", rec.Replaces, "replacement", rec.ID, "error", err)
	}
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
		return refuse(codes.FailedPrecondition, "NOT_REPLACED", "instance %s was made on demand: nothing replaces it; delete it without replace_first", in.ID)
	}
	if in.State.Leaving() {
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
