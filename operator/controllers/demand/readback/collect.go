package readback

import (
	"context"
	"fmt"
	"slices"
	"time"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/readback"
)

const (
	// unaskedRounds is how many rounds of roll-ups in a row may lack a profile before its AvailableCapacity goes.
	unaskedRounds = 3
	// retry is how long after a failed call the next one is made here, longestRetry the longest of the
	// growing pauses.
	retry, longestRetry = time.Second, 30 * time.Second
	// idle is how long nothing is looked at where nothing is due.
	idle = time.Hour
)

// Run reads the objects that exist, and then deletes those whose time is over, until ctx ends. It returns the
// reason of ctx. What is to be written waits until they were read.
func (w *Writer) Run(ctx context.Context) error {
	for pause := retry; ; pause = min(2*pause, longestRetry) {
		err := w.read(ctx)
		if err == nil {
			break
		}
		w.opts.Log.WarnContext(ctx, "objects of demand mode not read", "error", err, "retry_in", pause.String())
		if !sleep(ctx, pause) {
			return context.Cause(ctx)
		}
	}
	close(w.ready)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.wake:
		case <-timer.C:
		}
		timer.Reset(w.collect(ctx))
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (w *Writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// read reads all objects of both kinds.
func (w *Writer) read(ctx context.Context) error {
	var machines demandv1.UpcomingNodeList
	if err := w.opts.Client.List(ctx, &machines); err != nil {
		return fmt.Errorf("list UpcomingNodes: %w", err)
	}
	var offers demandv1.AvailableCapacityList
	if err := w.opts.Client.List(ctx, &offers); err != nil {
		return fmt.Errorf("list AvailableCapacities: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range machines.Items {
		w.upcoming[machines.Items[i].Name] = trim(&machines.Items[i])
	}
	for i := range offers.Items {
		o := trim(&offers.Items[i])
		w.offers[o.Spec.ProfileFingerprint] = o
	}
	return nil
}

// SnapshotComplete deletes the UpcomingNodes of machines that a shard no longer has for this cluster; spoken
// are all that it has spoken of up to now. Those of other shards stay.
func (w *Writer) SnapshotComplete(ctx context.Context, shard string, spoken func() []string) error {
	if err := w.await(ctx); err != nil {
		return err
	}
	w.mu.Lock()
	have := make([]demandv1.UpcomingNode, 0, len(w.upcoming))
	for _, o := range w.upcoming {
		have = append(have, *o)
	}
	w.mu.Unlock()
	// Only now: of a machine whose UpcomingNode was made meanwhile the shard has spoken before.
	for _, name := range readback.Absent(have, shard, spoken()) {
		if err := w.deleteNode(ctx, name, "the shard has no such machine for this cluster"); err != nil {
			return err
		}
	}
	return nil
}

// Asked hears after a round of roll-ups which profiles are asked for, by their fingerprints.
func (w *Writer) Asked(fingerprints map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for fingerprint := range w.offers {
		if fingerprints[fingerprint] {
			delete(w.unasked, fingerprint)
			continue
		}
		if w.unasked[fingerprint]++; w.unasked[fingerprint] == unaskedRounds {
			w.signal()
		}
	}
}

// collect deletes what is over, and returns when to look again.
func (w *Writer) collect(ctx context.Context) time.Duration {
	failed := false
	try := func(err error) {
		if err != nil && ctx.Err() == nil {
			w.opts.Log.WarnContext(ctx, "object of demand mode not deleted", "error", err, "retry_in", longestRetry.String())
			failed = true
		}
	}
	expired, next := w.expired()
	for _, name := range expired {
		try(w.deleteNode(ctx, name, "its machine failed an hour ago"))
	}
	for _, fingerprint := range w.unwanted() {
		try(w.forget(ctx, fingerprint))
	}
	for _, fingerprint := range w.dropShards() {
		try(w.sum(ctx, fingerprint))
	}
	if failed {
		return min(next, longestRetry)
	}
	return next
}

// expired returns the UpcomingNodes of machines that failed long ago, and how long it takes until
// there is another one.
func (w *Writer) expired() (names []string, next time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.opts.Now()
	next = idle
	for name, o := range w.upcoming {
		at, failed := readback.Expires(o)
		switch {
		case !failed:
		case !at.After(now):
			names = append(names, name)
		default:
			next = min(next, at.Sub(now))
		}
	}
	slices.Sort(names)
	return names, next
}

// unwanted returns the fingerprints of profiles that were not asked for lately.
func (w *Writer) unwanted() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for fingerprint, rounds := range w.unasked {
		switch {
		case w.offers[fingerprint] == nil:
			delete(w.unasked, fingerprint)
		case rounds >= unaskedRounds:
			all = append(all, fingerprint)
		}
	}
	slices.Sort(all)
	return all
}

// forget deletes the AvailableCapacity of a profile and what was said of it.
func (w *Writer) forget(ctx context.Context, fingerprint string) error {
	leave, err := w.enter(ctx, fingerprint)
	if err != nil {
		return err
	}
	defer leave()
	if err := w.deleteOffer(ctx, fingerprint, "nothing asks for the profile any longer"); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.said, fingerprint)
	delete(w.unasked, fingerprint)
	return nil
}

// dropShards forgets what shards have said that are no longer in the configuration, and returns the
// fingerprints of the profiles.
func (w *Writer) dropShards() (all []string) {
	present := w.opts.Shards()
	w.mu.Lock()
	defer w.mu.Unlock()
	for fingerprint, said := range w.said {
		before := len(said)
		for shard := range said {
			if !slices.Contains(present, shard) {
				w.unsay(fingerprint, shard)
			}
		}
		if len(said) < before {
			all = append(all, fingerprint)
		}
	}
	slices.Sort(all)
	return all
}

// ShardsChanged hears that there may be fewer shards.
func (w *Writer) ShardsChanged() { w.signal() }
