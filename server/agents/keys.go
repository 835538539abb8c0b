package agents

import (
	"errors"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/layout"
	"nstance.dev/server/pki"
	"nstance.dev/server/refusal"
)

// storeKeys takes the public halves of keys that the agent made. Those that the
// template does not ask for are refused; the others are answered for once they
// are stored.
func (a *Service) storeKeys(s *stream, msg *nstancev1.PublicKeys) error {
	wanted := a.opts.Files.KeyNames(s.id)
	answer := &nstancev1.KeysStored{RequestId: msg.RequestId}
	valid := map[string]string{}
	for _, key := range msg.Keys {
		if err := checkAgentKey(key, wanted); err != nil {
			answer.Refused = append(answer.Refused, &nstancev1.RefusedKey{
				Filename: printable(key.Filename), Code: string(refusal.InvalidArgument), Message: err.Error(),
			})
			continue
		}
		valid[key.Filename] = string(key.PublicKeyPem)
		answer.Stored = append(answer.Stored, key.Filename)
	}
	if len(valid) > 0 {
		a.opts.Cache.PutPublicKeys(s.id, valid)
		if err := a.opts.Cache.Flush(s.conn.Context()); err != nil {
			return refusal.New(refusal.Unavailable, "CACHE_UNAVAILABLE", "the keys could not be stored")
		}
	}
	a.line(s).Offer(&nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_KeysStored{KeysStored: answer}})
	if len(valid) > 0 {
		a.opts.Files.KeysStored(s.id)
	}
	return nil
}

func checkAgentKey(key *nstancev1.AgentPublicKey, wanted []string) error {
	if !slices.Contains(wanted, key.Filename) {
		return errors.New("no file of the template asks for this key")
	}
	_, err := pki.ParseFilePublicKey(key.PublicKeyPem)
	return err
}

// renew gives the agent a new certificate: the record names it before it leaves.
func (a *Service) renew(s *stream, req *nstancev1.Renew) error {
	answer := &nstancev1.Renewed{RequestId: req.RequestId}
	if !s.heard.pace.renewals.Allow() {
		answer.Code, answer.Message = string(refusal.ResourceExhausted), "too many renewals; a certificate is renewed once in its life"
		a.line(s).Offer(&nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_Renewed{Renewed: answer}})
		return nil
	}
	cert, err := a.renewal(s.id, s.serial, req.PublicKeyPem)
	var refused *refusal.Error
	switch {
	case err == nil:
		answer.ClientCertificatePem, answer.ExpiresAt = cert.PEM, timestamppb.New(cert.NotAfter)
	case errors.As(err, &refused):
		answer.Code, answer.Message = string(refused.Code), refused.Message
	default:
		a.opts.Over(err)
		a.opts.Log.Warn("certificate not renewed", "instance", s.id, "error", err)
		answer.Code, answer.Message = string(refusal.Unavailable), "the certificate could not be recorded; try again"
	}
	a.line(s).Offer(&nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_Renewed{Renewed: answer}})
	return nil
}

// renewal issues and records a certificate for the stream that was opened
// with the given serial. That one stays good: it is what the agent certainly
// has, however many answers were lost.
func (a *Service) renewal(id identity.ID, serial string, publicKey []byte) (pki.Certificate, error) {
	row, ok := a.opts.Instances.Known(id)
	if !ok {
		return pki.Certificate{}, errDeleted
	}
	key, err := pki.ParsePublicKey(publicKey)
	if err != nil {
		return pki.Certificate{}, refusal.New(refusal.InvalidArgument, "INVALID_KEY", "public_key_pem: %v", err)
	}
	if row.PublicKeyPEM != "" && !sameKey(row.PublicKeyPEM, key) {
		a.alarm(row, alarmNewKey)
		return pki.Certificate{}, refusal.New(refusal.PermissionDenied, "KEY_CHANGED", "public_key_pem: it is not the instance's key; a machine keeps its key for life")
	}
	cert, err := a.opts.Keys().Authority.IssueAgent(pki.AgentRequest{
		PublicKey: key, ID: id, Tenant: row.Group.Tenant, Shard: a.opts.Shard,
		TTL: a.opts.Config().Server.ClientCertTTL.Agent.Std(),
	})
	if err != nil {
		return pki.Certificate{}, err
	}
	keyPEM, err := pki.EncodePublicKey(key)
	if err != nil {
		return pki.Certificate{}, err
	}
	_, err = a.opts.Instances.Change(a.ctx, id, func(rec *layout.InstanceRecord) error {
		if rec.PublicKeyPEM != "" && !sameKey(rec.PublicKeyPEM, key) { // the row was older
			return refusal.New(refusal.PermissionDenied, "KEY_CHANGED", "public_key_pem: it is not the instance's key; a machine keeps its key for life")
		}
		rec.PublicKeyPEM = string(keyPEM)
		rec.Certificate = replaceCertificate(serial, cert)
		return nil
	})
	if err != nil {
		return pki.Certificate{}, err
	}
	a.opts.Metrics.issued()
	return cert, a.mayHandOut()
}
