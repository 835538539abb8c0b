package filesync

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"nstance.dev/server/config/document"
	"nstance.dev/server/filesync/delivery"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/pki"
	"nstance.dev/server/render"
)

// certify issues certificates and sends them, and reports whether all that could
// be issued were sent. What would not fit is not issued: it would stand in the
// log and never have been anybody's.
func (v *visit) certify(ctx context.Context, wanted []delivery.Push) bool {
	for len(wanted) > 0 {
		room := v.line.Room()
		if room < 1 {
			return false
		}
		batch := wanted[:min(room, len(wanted))]
		wanted = wanted[len(batch):]
		if !v.sendAll(v.issue(ctx, batch)) {
			return false
		}
	}
	return true
}

// issue signs certificates and logs them. None leaves if they cannot be logged.
func (v *visit) issue(ctx context.Context, batch []delivery.Push) []made {
	now := v.machine.moment(v.syncer.opts.Now())
	log := layout.Certlog{Term: v.syncer.opts.Term, InstanceID: v.machine.id, Tenant: v.subject.Group.Tenant, IssuedAt: layout.At(now)}
	var out []made
	for _, p := range batch {
		cert, err := v.sign(ctx, p)
		if errors.Is(err, lease.ErrNotLeader) {
			return nil
		}
		if err != nil {
			v.failed(p, document.FileCertificate, err)
			continue
		}
		log.Certificates = append(log.Certificates, layout.IssuedCertificate{
			Name: p.Name, Serial: cert.Serial, ExpiresAt: layout.At(cert.NotAfter),
		})
		out = append(out, made{Push: p, kind: document.FileCertificate, data: cert.PEM, modified: now})
	}
	if len(out) == 0 {
		return nil
	}
	if err := v.record(ctx, log); err != nil {
		for _, f := range out {
			if ctx.Err() == nil {
				v.failed(f.Push, document.FileCertificate, err)
			}
		}
		return nil
	}
	v.syncer.opts.Metrics.issued(len(out))
	return out
}

// sign issues one certificate over the key that the agent has handed in.
func (v *visit) sign(ctx context.Context, p delivery.Push) (pki.Certificate, error) {
	template := v.subject.certificate(v.subject.Config.Files[p.Name])
	names, err := render.Certificate(p.Name, template, v.subject.Data)
	if err != nil {
		return pki.Certificate{}, err
	}
	key, err := pki.ParseFilePublicKey([]byte(v.syncer.opts.Cache.PublicKeys(v.machine.id)[p.Key]))
	if err != nil {
		return pki.Certificate{}, fmt.Errorf("key %s: %w", p.Key, err)
	}
	if err := lease.Check(ctx); err != nil {
		return pki.Certificate{}, err
	}
	return v.syncer.opts.Authority().IssueFile(pki.FileRequest{
		PublicKey: key, Subject: names.Subject, DNS: names.DNS, IPs: names.IPs, URIs: names.URIs, TTL: names.TTL,
		Client: slices.Contains([]string{document.CertClient, document.CertPeer}, template.Kind),
		Server: slices.Contains([]string{document.CertServer, document.CertPeer}, template.Kind),
	})
}

func (v *visit) record(ctx context.Context, log layout.Certlog) error {
	data, err := log.Encode()
	if err != nil {
		return err
	}
	_, err = objectstore.Put(ctx, v.syncer.opts.Store, log.Key(v.syncer.opts.Shard), data, "", objectstore.RetryPolicy{Permit: lease.Check})
	if err != nil {
		return fmt.Errorf("the certificate could not be logged: %w", err)
	}
	return nil
}
