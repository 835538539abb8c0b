package shard

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"nstance.dev/server/instances"
	"slices"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/bucket"
	"nstance.dev/server/cache"
	"nstance.dev/server/config"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/pki"
	"nstance.dev/server/refusal"
	"nstance.dev/server/retry"
)

// AdoptVM makes a held machine an instance of the group that its tags name, as if
// its record had never been lost. Only an administrator may ask for that: tags are
// no proof, so a person vouches for them. A repeat answers with what is there.
//
// From then on the machine is like any other. Its agent gets in with a certificate
// that this cluster issued to the instance; if it does not come, the instance is
// found sick and replaced.
func (r *Reign) AdoptVM(ctx context.Context, providerID string) (*nstancev1.InstanceStatus, error) {
	if providerID == "" {
		return nil, refusal.New(refusal.InvalidArgument, "INVALID_FIELD", "provider_instance_id: it is empty; ListHeldVMs says which there are")
	}
	held, ok := r.collector.holds(providerID)
	if !ok {
		return r.adoptedBefore(providerID)
	}
	m, err := r.lookAtHeld(ctx, held)
	if err != nil {
		return nil, err
	}
	eff, err := r.adoptive(m)
	if err != nil {
		return nil, err
	}
	rec := r.adoptedRecord(m, eff)
	switch err := r.instances.Create(r.ctx, rec); {
	case errors.Is(err, objectstore.ErrPrecondition):
		return nil, notAdoptable("its record stands in storage again; the next listing takes it in")
	case err != nil:
		r.stumble(err)
		return nil, unavailable(err) // if it is durable after all, the next listing takes it in
	}
	r.collector.release(providerID)
	r.log.WarnContext(ctx, "machine adopted", "instance", rec.ID, "provider_id", providerID, "tenant", rec.Tenant, "group", rec.Group)
	r.observe(m, r.now())
	r.Enqueue(instances.GroupOf(rec))
	return r.GetInstance(rec.Tenant, rec.ID.String())
}

// adoptedBefore answers for a machine that is not held: it is an instance already,
// or there is none.
func (r *Reign) adoptedBefore(providerID string) (*nstancev1.InstanceStatus, error) {
	for _, in := range r.cache.All() {
		if in.ProviderID == providerID && in.State.Live() {
			return r.instanceStatus(in), nil
		}
	}
	return nil, refusal.New(refusal.NotFound, "NOT_FOUND", "no machine %q is held; ListHeldVMs says which are, as of the last listing", providerID)
}

// notAdoptable says why a machine stays held.
func notAdoptable(format string, args ...any) *refusal.Error {
	refused := refusal.New(refusal.FailedPrecondition, "NOT_ADOPTABLE", format, args...)
	refused.Message = "the machine cannot be adopted: " + refused.Message
	return refused
}

// lookAtHeld asks the provider for the machine as it is now, if nothing but its
// record is wrong with it.
func (r *Reign) lookAtHeld(ctx context.Context, held Held) (driver.Machine, error) {
	switch held.Cause {
	case fleet.CauseBadID:
		return driver.Machine{}, notAdoptable("its instance id tag %q is none of ours, so its agent can have no identity; remove it at the provider", held.VM.RawID)
	case fleet.CauseUnreadable:
		return driver.Machine{}, notAdoptable("its record is there and cannot be read; restore or delete the object, then restart the leader")
	case fleet.CauseSecondVM:
		return driver.Machine{}, notAdoptable("instance %s has another machine; remove one of the two at the provider", held.VM.ID)
	}
	// It may outlast its caller no longer than its lease.
	ctx, stop := r.bound(ctx)
	defer stop()
	m, err := r.provider.Get(ctx, driver.Ref{InstanceID: held.VM.ID, ProviderID: held.VM.ProviderID})
	switch {
	case driver.KindOf(err) == driver.NotFound:
		return m, refusal.New(refusal.NotFound, "NOT_FOUND", "the provider has no machine %q any more", held.VM.ProviderID)
	case err != nil:
		r.stumble(err)
		return m, &refusal.Error{Code: refusal.Unavailable, Reason: "PROVIDER_UNAVAILABLE", Message: "the provider could not be asked about the machine; try again", Err: err}
	case m.InstanceID != held.VM.ID:
		return m, notAdoptable("its instance id tag has changed since the last listing; wait for the next one")
	case m.Status.Down():
		return m, notAdoptable("the provider says that it is %s; start it first", m.Status)
	}
	return m, nil
}

// bound joins a caller's context with the leadership, whose proof it carries.
func (r *Reign) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	bound, cancel := context.WithCancel(r.ctx)
	stop := context.AfterFunc(ctx, cancel)
	return bound, func() { stop(); cancel() }
}

// adoptive finds the group that takes a machine in, by its tags.
func (r *Reign) adoptive(m driver.Machine) (*config.EffectiveGroup, error) {
	cfg := r.wanted.config()
	switch {
	case m.Tenant == "" || m.Group == "":
		return nil, notAdoptable("its tags do not name a tenant and a group; write them, and wait for the next listing")
	case identity.ValidateName(m.Tenant) != nil || !cfg.HasTenant(m.Tenant):
		return nil, notAdoptable("its tags name the tenant %q, which is not configured", m.Tenant)
	}
	eff, ok := r.wanted.effective(fleet.GroupID{Tenant: m.Tenant, Name: m.Group})
	switch {
	case !ok || eff.Deleted:
		return nil, notAdoptable("its tags name the group %q of tenant %q, which does not exist or is held; create it first", m.Group, m.Tenant)
	case m.InstanceID.Prefix() != eff.Kind:
		return nil, notAdoptable("it is of kind %q, and the group %q has %q", m.InstanceID.Prefix(), m.Group, eff.Kind)
	}
	name := cmp.Or(m.Template, eff.Template)
	if _, ok := cfg.Templates[name]; !ok {
		return nil, notAdoptable("its tags name the template %q, which is not configured", name)
	}
	return eff, nil
}

// adoptedRecord is the record of a machine that is taken in. Its certificate is
// learnt when its agent connects.
func (r *Reign) adoptedRecord(m driver.Machine, eff *config.EffectiveGroup) bucket.InstanceRecord {
	created := m.CreatedAt
	if created.IsZero() {
		created = m.InstanceID.CreatedAt()
	}
	rec := bucket.InstanceRecord{
		ID: m.InstanceID, Tenant: eff.Tenant, ClusterID: r.opts.Cluster, Shard: r.opts.Shard, Group: eff.Key,
		Template: cmp.Or(m.Template, eff.Template), Kind: eff.Kind, Arch: eff.Arch,
		InfraHash: adoptedHash(m, eff), InstanceType: cmp.Or(m.Type, eff.InstanceTypes[0]), SubnetPool: eff.SubnetPool, SubnetID: m.SubnetID,
		Provider: r.wanted.config().Server.Provider.Kind, ProviderID: m.ProviderID,
		Status: bucket.StatusRegistered, CreatedAt: bucket.At(created),
	}
	fillAddresses(&rec, m)
	rec.RegisteredAt = bucket.At(r.now())
	return rec
}

// adoptedHash is what an adopted machine counts as made from. Nobody knows it for sure: it
// is taken for a machine of the group's present configuration, which a change replaces
// like any other, unless the provider shows that it was made from another one.
func adoptedHash(m driver.Machine, eff *config.EffectiveGroup) string {
	if m.Template != "" && m.Template != eff.Template || m.Type != "" && !slices.Contains(eff.InstanceTypes, m.Type) {
		return "adopted" // the hash of no configuration
	}
	return eff.InfraHash
}

// adopted reports whether an instance came in by adoption and its agent has not
// connected yet: it counts as registered, and nobody knows its certificate.
func adopted(row cache.Instance) bool {
	return !row.RegisteredAt.IsZero() && row.CertSerial == "" && row.PrevSerial == ""
}

// ownsCertificate reports whether a verified certificate of the instance is the one
// that it holds, or the one before. An adopted one's is the first that it comes
// with, from then on that one alone.
func (r *Reign) ownsCertificate(row cache.Instance, peer identity.Peer) bool {
	if adopted(row) && r.ctx.Err() == nil {
		first := false
		row, _ = r.instances.Note(row.ID, func(in *cache.Instance) error {
			if first = adopted(*in); first {
				in.CertSerial, in.CertNotAfter = peer.Serial, peer.NotAfter
				in.PublicKeyPEM = keyOf(peer)
			}
			return nil
		})
		if first {
			r.tasks.Go(func() { r.pin(peer) })
		}
	}
	return peer.Serial != "" && (peer.Serial == row.CertSerial || peer.Serial == row.PrevSerial)
}

// recordedKey reports whether a verified certificate has the key of the instance's record,
// as far as both are known: an adopted instance's key is learnt with its certificate.
func recordedKey(row cache.Instance, peer identity.Peer) bool {
	return row.PublicKeyPEM == "" || peer.Key == [ed25519.PublicKeySize]byte{} || sameKey(row.PublicKeyPEM, peer.Key[:])
}

// keyOf is the key of a certificate as records have it; "": it is not known.
func keyOf(peer identity.Peer) string {
	if peer.Key == [ed25519.PublicKeySize]byte{} {
		return ""
	}
	text, err := pki.EncodePublicKey(ed25519.PublicKey(peer.Key[:]))
	if err != nil { // cannot be: it is a key
		return ""
	}
	return string(text)
}

// pin makes an adopted instance's certificate durable.
func (r *Reign) pin(peer identity.Peer) {
	for wait := storeRetry; ; wait = min(2*wait, longestRetry) {
		_, err := r.instances.Change(r.ctx, peer.ID, func(rec *bucket.InstanceRecord) error {
			if rec.Certificate.Serial == "" {
				rec.Certificate = bucket.Certificate{Serial: peer.Serial, NotAfter: bucket.At(peer.NotAfter)}
				rec.PublicKeyPEM = keyOf(peer)
			}
			return nil
		})
		if err == nil || r.stumble(err) || errors.Is(err, objectstore.ErrNotFound) || retry.Wait(r.ctx, wait) != nil {
			return
		}
		r.log.Warn("certificate of an adopted instance not recorded", "instance", peer.ID, "retry_in", wait, "error", err)
	}
}
