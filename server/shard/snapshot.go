package shard

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"nstance.dev/server/bucket"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/retry"
)

// When a snapshot is written: at more changed records than snapshotAfter, which
// are as many requests for the next leader, and once in snapshotEvery at most.
const (
	snapshotAfter = 100
	snapshotEvery = time.Minute
)

// snapshotReads is how often a take-over tries to read a snapshot that storage
// does not hand out, before it reads the records themselves.
const snapshotReads = 3

// snapshots copies the records of the shard into a few large objects, so that a
// take-over need not ask for each record. What they hold is never taken for
// true: a copy counts only where the listing has its etag.
type snapshots struct {
	r     *Reign
	whole uint64 // the newest generation that is known to be complete; 0: none
	fails int    // reads that failed, of this take-over
	room  int    // of a part, in bytes; bucket.MaxSnapshotPart
}

func newSnapshots(r *Reign) *snapshots { return &snapshots{r: r, room: bucket.MaxSnapshotPart} }

// run writes a snapshot whenever enough has changed, until ctx ends. Nobody
// waits for it. The first minute is for the case that leaders come and go.
func (s *snapshots) run(ctx context.Context) {
	for retry.Wait(ctx, snapshotEvery) == nil {
		select {
		case <-ctx.Done():
			return
		case <-s.r.records.stale:
		}
		changed := s.r.records.resetChanges()
		started := s.r.now()
		n, err := s.write(ctx)
		switch {
		case err == nil:
			s.r.log.InfoContext(ctx, "snapshot written", "generation", s.whole, "records", n, "changed", changed, "took", s.r.now().Sub(started))
		case ctx.Err() != nil || s.r.stumble(err):
			return
		default:
			s.r.records.addChanges(changed)
			s.r.log.WarnContext(ctx, "snapshot not written; a take-over would take longer", "retry_in", snapshotEvery, "error", err)
		}
	}
}

// write stores the next generation, and then removes all others but the whole
// one before it. It returns how many records are in it.
func (s *snapshots) write(ctx context.Context) (int, error) {
	stored, err := s.list(ctx)
	if err != nil {
		return 0, err
	}
	generation := uint64(1)
	for _, p := range stored {
		generation = max(generation, p.generation+1)
	}
	n, err := s.writeParts(ctx, generation)
	if err != nil {
		return 0, fmt.Errorf("write snapshot %d: %w", generation, err)
	}
	before := s.whole
	s.whole = generation
	s.clean(ctx, stored, before)
	return n, nil
}

// writeParts stores one part after the other: memory holds no more than one.
func (s *snapshots) writeParts(ctx context.Context, generation uint64) (n int, err error) {
	part := 1
	packer := s.pack(generation, part)
	for _, id := range s.r.records.ids() {
		rec, etag, ok := s.r.records.stored(id)
		if !ok {
			continue // removed meanwhile
		}
		data, err := rec.Encode()
		if err != nil {
			return n, err
		}
		if packer.Add(data, etag) {
			n++
			continue
		}
		if packer.Len() == 0 {
			continue // larger than a part: a take-over has to ask for it
		}
		if err := s.put(ctx, generation, part, packer.Close(false)); err != nil {
			return n, err
		}
		part++
		packer = s.pack(generation, part)
		if packer.Add(data, etag) {
			n++
		}
	}
	return n, s.put(ctx, generation, part, packer.Close(true))
}

func (s *snapshots) pack(generation uint64, part int) *bucket.SnapshotPacker {
	packer := bucket.PackSnapshot(s.r.opts.Shard, s.r.term, generation, part)
	packer.Narrow(s.room)
	return packer
}

func (s *snapshots) put(ctx context.Context, generation uint64, part int, data []byte) error {
	key := bucket.SnapshotKey(s.r.opts.Shard, generation, part)
	_, err := objectstore.Put(ctx, s.r.opts.Store, key, data, "", s.r.records.policy)
	return err
}

// clean removes the parts that stood in storage, but for those of one generation.
// What is left over goes with the next snapshot.
func (s *snapshots) clean(ctx context.Context, stored []storedPart, keep uint64) {
	for _, p := range stored {
		if p.generation == keep || lease.Check(ctx) != nil {
			continue
		}
		err := objectstore.Delete(ctx, s.r.opts.Store, p.key, p.etag, s.r.records.policy)
		if err != nil && !errors.Is(err, objectstore.ErrNotFound) && ctx.Err() == nil {
			s.r.log.WarnContext(ctx, "old snapshot not removed; the next one tries again", "key", p.key, "error", err)
		}
	}
}

// storedPart is one part of a snapshot as a listing shows it.
type storedPart struct {
	key, etag  string
	generation uint64
	part       int
}

// list returns the parts in storage, in order. Keys of another form are somebody
// else's.
func (s *snapshots) list(ctx context.Context) ([]storedPart, error) {
	var parts []storedPart
	for info, err := range objectstore.ListAll(ctx, s.r.opts.Store, bucket.SnapshotPrefix(s.r.opts.Shard)) {
		if err != nil {
			return nil, err
		}
		if _, generation, part, err := bucket.ParseSnapshotKey(info.Key); err == nil {
			parts = append(parts, storedPart{info.Key, info.ETag, generation, part})
		}
	}
	return parts, nil
}

// copies are records out of snapshots, by the keys of their objects.
type copies map[string]*bucket.SnapshotRecord

// take removes the copy of a listed record, and returns it if it is right.
func (c copies) take(listed objectstore.Info) (bucket.InstanceRecord, bool) {
	rec, ok := c[listed.Key]
	delete(c, listed.Key)
	if !ok || rec.ETag != listed.ETag {
		return bucket.InstanceRecord{}, false
	}
	return rec.Record, true
}

// read returns the copies of the newest generation. Where it is not whole, those
// of the ones before fill its gaps, as far as there are any: a copy is as good as
// its etag, wherever it stands. The error is one that a repetition may mend.
func (s *snapshots) read(ctx context.Context) (copies, error) {
	found, err := s.readAll(ctx)
	if err == nil || ctx.Err() != nil {
		return found, ctx.Err()
	}
	if s.fails++; s.fails < snapshotReads && objectstore.Retryable(err) {
		return nil, err
	}
	s.r.log.WarnContext(ctx, "snapshot not read, the records are", "error", err)
	return found, nil
}

func (s *snapshots) readAll(ctx context.Context) (copies, error) {
	found := copies{}
	parts, err := s.list(ctx)
	if err != nil {
		return found, err
	}
	for len(parts) > 0 {
		first := len(parts) - 1
		for first > 0 && parts[first-1].generation == parts[first].generation {
			first--
		}
		newest := parts[first:]
		parts = parts[:first]
		whole, err := s.readGeneration(ctx, newest, found)
		if err != nil {
			return found, err
		}
		if whole {
			s.whole = newest[0].generation
			break
		}
		s.r.log.WarnContext(ctx, "snapshot is not whole, trying the one before", "generation", newest[0].generation, "parts", len(newest))
	}
	return found, nil
}

// readGeneration adds the copies in the parts of one generation that are not
// found yet, and reports whether the generation is whole.
func (s *snapshots) readGeneration(ctx context.Context, parts []storedPart, found copies) (whole bool, err error) {
	read := make([]bucket.SnapshotPart, len(parts))
	good := make([]bool, len(parts))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0)) // unpacked, each is large
	for i, p := range parts {
		g.Go(func() error {
			var err error
			read[i], good[i], err = s.readPart(ctx, p.key)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return false, err
	}
	whole = read[len(read)-1].Last
	for i := range read {
		whole = whole && good[i] && parts[i].part == i+1 && read[i].Term == read[0].Term
		for j := range read[i].Records {
			rec := &read[i].Records[j]
			key := rec.Record.Key()
			if _, ok := found[key]; !ok {
				found[key] = rec
			}
		}
	}
	return whole, nil
}

// readPart returns one part, and whether it is good for anything.
func (s *snapshots) readPart(ctx context.Context, key string) (part bucket.SnapshotPart, good bool, err error) {
	obj, err := s.r.opts.Store.Get(ctx, key)
	if errors.Is(err, objectstore.ErrNotFound) {
		return part, false, nil
	}
	if err != nil {
		return part, false, err
	}
	part, err = bucket.DecodeSnapshotPart(key, obj.Data)
	if err != nil {
		s.r.log.WarnContext(ctx, "part of a snapshot cannot be used", "error", err)
		return part, false, nil
	}
	return part, true, nil
}
