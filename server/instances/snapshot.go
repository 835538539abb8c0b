package instances

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/retry"
)

// snapshotEvery is the least time between two snapshots.
const snapshotEvery = time.Minute

// snapshotReads is how often a take-over tries to read a snapshot that storage
// does not hand out, before it reads the records themselves.
const snapshotReads = 3

// snapshots copies the records of the shard into a few large objects, so that a
// take-over need not ask for each record. What they hold is never taken for
// true: a copy counts only where the listing has its etag.
type snapshots struct {
	opts    Options
	records *records

	whole uint64 // the newest generation that is known to be complete; 0: none
	fails int    // reads that failed, of this take-over
	room  int    // of a part, in bytes; layout.MaxSnapshotPart
}

// run writes a snapshot whenever enough has changed, until ctx ends. Nobody
// waits for it. The first minute is for the case that leaders come and go.
func (sn *snapshots) run(ctx context.Context) {
	for retry.Wait(ctx, snapshotEvery) == nil {
		select {
		case <-ctx.Done():
			return
		case <-sn.records.stale:
		}
		changed := sn.records.resetChanges()
		started := sn.opts.Now()
		n, err := sn.write(ctx)
		switch {
		case err == nil:
			sn.opts.Log.InfoContext(ctx, "snapshot written", "generation", sn.whole, "records", n, "changed", changed, "took", sn.opts.Now().Sub(started))
		case ctx.Err() != nil || sn.opts.Over(err):
			return
		default:
			sn.records.addChanges(changed)
			sn.opts.Log.WarnContext(ctx, "snapshot not written; a take-over would take longer", "retry_in", snapshotEvery, "error", err)
		}
	}
}

// write stores the next generation, and then removes all others but the whole
// one before it. It returns how many records are in it.
func (sn *snapshots) write(ctx context.Context) (int, error) {
	stored, err := sn.list(ctx)
	if err != nil {
		return 0, err
	}
	generation := uint64(1)
	for _, p := range stored {
		generation = max(generation, p.generation+1)
	}
	n, err := sn.writeParts(ctx, generation)
	if err != nil {
		return 0, fmt.Errorf("write snapshot %d: %w", generation, err)
	}
	before := sn.whole
	sn.whole = generation
	sn.clean(ctx, stored, before)
	return n, nil
}

// writeParts stores one part after the other: memory holds no more than one.
func (sn *snapshots) writeParts(ctx context.Context, generation uint64) (n int, err error) {
	part := 1
	packer := sn.pack(generation, part)
	for _, id := range sn.records.ids() {
		rec, etag, ok := sn.records.stored(id)
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
		if err := sn.put(ctx, generation, part, packer.Close(false)); err != nil {
			return n, err
		}
		part++
		packer = sn.pack(generation, part)
		if packer.Add(data, etag) {
			n++
		}
	}
	return n, sn.put(ctx, generation, part, packer.Close(true))
}

func (sn *snapshots) pack(generation uint64, part int) *layout.SnapshotPacker {
	packer := layout.PackSnapshot(sn.opts.Shard, sn.opts.Term, generation, part)
	packer.Narrow(sn.room)
	return packer
}

func (sn *snapshots) put(ctx context.Context, generation uint64, part int, data []byte) error {
	key := layout.SnapshotKey(sn.opts.Shard, generation, part)
	_, err := objectstore.Put(ctx, sn.opts.Objects, key, data, "", sn.opts.Writes)
	return err
}

// clean removes the parts that stood in storage, but for those of one generation.
// What is left over goes with the next snapshot.
func (sn *snapshots) clean(ctx context.Context, stored []storedPart, keep uint64) {
	for _, p := range stored {
		if p.generation == keep || lease.Check(ctx) != nil {
			continue
		}
		err := objectstore.Delete(ctx, sn.opts.Objects, p.key, p.etag, sn.opts.Writes)
		if err != nil && !errors.Is(err, objectstore.ErrNotFound) && ctx.Err() == nil {
			sn.opts.Log.WarnContext(ctx, "old snapshot not removed; the next one tries again", "key", p.key, "error", err)
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
func (sn *snapshots) list(ctx context.Context) ([]storedPart, error) {
	var parts []storedPart
	for info, err := range objectstore.ListAll(ctx, sn.opts.Objects, layout.SnapshotPrefix(sn.opts.Shard)) {
		if err != nil {
			return nil, err
		}
		if _, generation, part, err := layout.ParseSnapshotKey(info.Key); err == nil {
			parts = append(parts, storedPart{info.Key, info.ETag, generation, part})
		}
	}
	return parts, nil
}

// copies are records out of snapshots, by the keys of their objects.
type copies map[string]*layout.SnapshotRecord

// take removes the copy of a listed record, and returns it if it is right.
func (c copies) take(listed objectstore.Info) (layout.InstanceRecord, bool) {
	rec, ok := c[listed.Key]
	delete(c, listed.Key)
	if !ok || rec.ETag != listed.ETag {
		return layout.InstanceRecord{}, false
	}
	return rec.Record, true
}

// read returns the copies of the newest generation. Where it is not whole, those
// of the ones before fill its gaps, as far as there are any: a copy is as good as
// its etag, wherever it stands. The error is one that a repetition may mend.
func (sn *snapshots) read(ctx context.Context) (copies, error) {
	found, err := sn.readAll(ctx)
	if err == nil || ctx.Err() != nil {
		return found, ctx.Err()
	}
	if sn.fails++; sn.fails < snapshotReads && objectstore.Retryable(err) {
		return nil, err
	}
	sn.opts.Log.WarnContext(ctx, "snapshot not read, the records are", "error", err)
	return found, nil
}

func (sn *snapshots) readAll(ctx context.Context) (copies, error) {
	found := copies{}
	parts, err := sn.list(ctx)
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
		whole, err := sn.readGeneration(ctx, newest, found)
		if err != nil {
			return found, err
		}
		if whole {
			sn.whole = newest[0].generation
			break
		}
		sn.opts.Log.WarnContext(ctx, "snapshot is not whole, trying the one before", "generation", newest[0].generation, "parts", len(newest))
	}
	return found, nil
}

// readGeneration adds the copies in the parts of one generation that are not
// found yet, and reports whether the generation is whole.
func (sn *snapshots) readGeneration(ctx context.Context, parts []storedPart, found copies) (whole bool, err error) {
	read := make([]layout.SnapshotPart, len(parts))
	good := make([]bool, len(parts))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0)) // unpacked, each is large
	for i, p := range parts {
		g.Go(func() error {
			var err error
			read[i], good[i], err = sn.readPart(ctx, p.key)
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
func (sn *snapshots) readPart(ctx context.Context, key string) (part layout.SnapshotPart, good bool, err error) {
	obj, err := sn.opts.Objects.Get(ctx, key)
	if errors.Is(err, objectstore.ErrNotFound) {
		return part, false, nil
	}
	if err != nil {
		return part, false, err
	}
	part, err = layout.DecodeSnapshotPart(key, obj.Data)
	if err != nil {
		sn.opts.Log.WarnContext(ctx, "part of a snapshot cannot be used", "error", err)
		return part, false, nil
	}
	return part, true, nil
}
