package readback

import (
	"context"
	"hash/fnv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/readback"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// Capacity writes down what a shard could give for a profile, summed over the shards.
func (w *Writer) Capacity(ctx context.Context, shard string, u *demandpb.AvailableCapacityUpdate) error {
	if err := w.await(ctx); err != nil {
		return err
	}
	fingerprint := u.GetFingerprint()
	w.mu.Lock()
	if w.said[fingerprint] == nil {
		w.said[fingerprint] = map[string]readback.Said{}
	}
	w.said[fingerprint][shard] = readback.Said{Shard: shard, Update: u, At: w.opts.Now()}
	if u.GetWithdrawn() {
		w.unsay(fingerprint, shard)
	}
	w.mu.Unlock()
	return w.sum(ctx, fingerprint)
}

// unsay forgets what a shard has said of a profile, under the lock, and the profile with the last of them.
func (w *Writer) unsay(fingerprint, shard string) {
	if delete(w.said[fingerprint], shard); len(w.said[fingerprint]) == 0 {
		delete(w.said, fingerprint)
	}
}

// sum writes down what the shards have said of a profile. Several shards may say something of one
// profile at once: then one write comes after the other, and the last has all of it.
func (w *Writer) sum(ctx context.Context, fingerprint string) error {
	leave, err := w.enter(ctx, fingerprint)
	if err != nil {
		return err
	}
	defer leave()
	have, said := w.offer(fingerprint)
	return w.changeOffer(ctx, fingerprint, have, readback.Available(have, fingerprint, said))
}

// enter returns once nobody else writes what is said of a profile; the caller leaves when it has
// written.
func (w *Writer) enter(ctx context.Context, fingerprint string) (leave func(), err error) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(fingerprint)) // a hash never fails
	lane := w.lanes[h.Sum32()%uint32(len(w.lanes))]
	select {
	case lane <- struct{}{}:
		return func() { <-lane }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// offer is what is known of a profile: its object, nil if there is none, and what the shards have said.
func (w *Writer) offer(fingerprint string) (*demandv1.AvailableCapacity, []readback.Said) {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := make([]readback.Said, 0, len(w.said[fingerprint]))
	for _, s := range w.said[fingerprint] {
		said = append(said, s)
	}
	return w.offers[fingerprint], said
}

func (w *Writer) keepOffer(fingerprint string, o *demandv1.AvailableCapacity) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.offers[fingerprint] = o; o == nil {
		delete(w.offers, fingerprint)
	}
}

// changeOffer carries out what becomes of an AvailableCapacity.
func (w *Writer) changeOffer(ctx context.Context, fingerprint string, have *demandv1.AvailableCapacity, change readback.CapacityChange) error {
	log := w.opts.Log.With("fingerprint", fingerprint, "reason", change.Reason)
	switch {
	case change.Delete:
		return w.deleteOffer(ctx, fingerprint, change.Reason)
	case change.Create != nil:
		made := change.Create.DeepCopy()
		if err := w.create(ctx, made, change.Create); err != nil {
			if apierrors.IsAlreadyExists(err) {
				return w.readOffer(ctx, fingerprint, err)
			}
			return err
		}
		made.Status = demandv1.AvailableCapacityStatus{} // creation sets none
		w.keepOffer(fingerprint, made)
		log.InfoContext(ctx, "available capacity made", "confidence", made.Spec.Confidence)
		return w.statusOfOffer(ctx, fingerprint, made, &change.Create.Status)
	}
	if change.Spec != nil {
		next := have.DeepCopy()
		next.Spec = *change.Spec
		if err := w.patch(ctx, next, client.MergeFrom(have)); err != nil {
			return w.lostOffer(ctx, fingerprint, err)
		}
		w.keepOffer(fingerprint, next)
		have = next
	}
	if change.Status != nil {
		log.DebugContext(ctx, "available capacity changed", "shortfall", change.Status.Shortfall != nil)
		return w.statusOfOffer(ctx, fingerprint, have, change.Status)
	}
	return nil
}

func (w *Writer) statusOfOffer(ctx context.Context, fingerprint string, have *demandv1.AvailableCapacity, status *demandv1.AvailableCapacityStatus) error {
	next := have.DeepCopy()
	next.Status = *status.DeepCopy()
	if err := w.patchStatus(ctx, next, client.MergeFrom(have)); err != nil {
		return w.lostOffer(ctx, fingerprint, err)
	}
	w.keepOffer(fingerprint, next)
	return nil
}

func (w *Writer) deleteOffer(ctx context.Context, fingerprint, reason string) error {
	if have, _ := w.offer(fingerprint); have == nil {
		return nil
	}
	if err := w.delete(ctx, &demandv1.AvailableCapacity{ObjectMeta: metav1.ObjectMeta{Name: readback.CapacityName(fingerprint)}}); err != nil {
		return err
	}
	w.keepOffer(fingerprint, nil)
	w.opts.Log.InfoContext(ctx, "available capacity deleted", "fingerprint", fingerprint, "reason", reason)
	return nil
}

func (w *Writer) lostOffer(ctx context.Context, fingerprint string, err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return w.readOffer(ctx, fingerprint, err)
	}
	return err
}

func (w *Writer) readOffer(ctx context.Context, fingerprint string, why error) error {
	var o demandv1.AvailableCapacity
	switch err := w.opts.Client.Get(ctx, client.ObjectKey{Name: readback.CapacityName(fingerprint)}, &o); {
	case apierrors.IsNotFound(err):
		w.keepOffer(fingerprint, nil)
	case err == nil:
		w.keepOffer(fingerprint, trim(&o))
	}
	return why
}
