package agents

import (
	"crypto/ed25519"
	"errors"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/pki"
	"nstance.dev/server/refusal"
	"nstance.dev/server/retry"
)

// Admit reports whether a certificate's owner may open a stream: its
// instance is one of this shard and tenant, exists, and holds this certificate
// or the one before, with the key of its record. Any other certificate of an instance
// that lives is a sign of theft.
func (a *Service) Admit(peer identity.Peer) error {
	row, ok := a.opts.Cache.Instance(peer.ID)
	switch {
	case peer.Cluster != a.opts.Cluster || peer.Shard != a.opts.Shard, !ok, row.Group.Tenant != peer.Tenant:
		return refusal.New(refusal.PermissionDenied, "UNKNOWN_INSTANCE", "the instance is not one of this shard")
	case !a.opts.Config().HasTenant(peer.Tenant):
		return refusal.New(refusal.PermissionDenied, "UNKNOWN_TENANT", "the tenant is not configured")
	case !row.DeletedAt.IsZero():
		return errDeleted
	case !recordedKey(row, peer):
		a.alarm(row, alarmForeignKey)
		return refusal.New(refusal.PermissionDenied, "CERTIFICATE_SUPERSEDED", "the certificate is not the instance's")
	case !a.ownsCertificate(row, peer):
		a.alarm(row, alarmSuperseded)
		return refusal.New(refusal.PermissionDenied, "CERTIFICATE_SUPERSEDED", "the certificate is not the instance's")
	}
	return nil
}

// adopted reports whether an instance came in by adoption and its agent has not
// connected yet: it counts as registered, and nobody knows its certificate.
func adopted(row cache.Instance) bool {
	return !row.RegisteredAt.IsZero() && row.CertSerial == "" && row.PrevSerial == ""
}

// ownsCertificate reports whether a verified certificate of the instance is the one
// that it holds, or the one before. An adopted one's is the first that it comes
// with, from then on that one alone.
func (a *Service) ownsCertificate(row cache.Instance, peer identity.Peer) bool {
	if adopted(row) && a.ctx.Err() == nil {
		first := false
		row, _ = a.opts.Instances.Note(row.ID, func(in *cache.Instance) error {
			if first = adopted(*in); first {
				in.CertSerial, in.CertNotAfter = peer.Serial, peer.NotAfter
				in.PublicKeyPEM = keyOf(peer)
			}
			return nil
		})
		if first {
			a.opts.Go(func() { a.pin(peer) })
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
func (a *Service) pin(peer identity.Peer) {
	for wait := firstPinRetry; ; wait = min(2*wait, longestPinRetry) {
		_, err := a.opts.Instances.Change(a.ctx, peer.ID, func(rec *layout.InstanceRecord) error {
			if rec.Certificate.Serial == "" {
				rec.Certificate = layout.Certificate{Serial: peer.Serial, NotAfter: layout.At(peer.NotAfter)}
				rec.PublicKeyPEM = keyOf(peer)
			}
			return nil
		})
		if err == nil || a.opts.Over(err) || errors.Is(err, objectstore.ErrNotFound) {
			return
		}
		a.opts.Log.Warn("certificate of an adopted instance not recorded", "instance", peer.ID, "retry_in", wait, "error", err)
		if retry.Wait(a.ctx, wait) != nil {
			return
		}
	}
}

// The pauses between tries to record the certificate of an adopted instance; they double.
const (
	firstPinRetry   = time.Second
	longestPinRetry = 30 * time.Second
)
