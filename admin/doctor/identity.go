package doctor

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"nstance.dev/admin/shardclient"
	"nstance.dev/protos/identity"
)

// soon is how long before its end a certificate is worth a warning.
const soon = 7 * 24 * time.Hour

const (
	newIdentity = "make a new identity with 'nstance-admin cluster register-operator'"
	setClock    = "set the clock of this machine, as with 'timedatectl set-ntp true'"
)

// Identity checks the folder of an operator's identity: that its files exist, are private
// and belong together, and that the certificate is good now, for this cluster and tenant
// where these are not empty.
func Identity(dir, cluster, tenant string, now time.Time) []Finding {
	l := &list{check: "identity"}
	if !l.files(dir) {
		return l.all
	}
	leaf := l.certificate(dir)
	if leaf == nil {
		return l.all
	}
	l.times(dir, leaf, now)
	l.chain(dir, leaf, now)
	peer, err := identity.PeerFromCertificate(leaf)
	switch {
	case err != nil:
		l.add(Fail, dir, newIdentity, "the certificate is not one of Nstance: %v", err)
		return l.all
	case cluster != "" && peer.Cluster != cluster:
		l.add(Fail, dir, "choose the context of that cluster, or correct cluster_id or identity_dir of this one", "it is of cluster %q, and the context is about %q", peer.Cluster, cluster)
	case tenant != "" && peer.Tenant != tenant:
		l.add(Fail, dir, "take an identity of that tenant, or correct tenant of the context", "it is of tenant %q, and the context is about %q", peer.Tenant, tenant)
	}
	if len(l.all) == 0 {
		l.add(OK, dir, "", "operator %s of tenant %s in cluster %s, for %s more", peer.ID, peer.Tenant, peer.Cluster, span(leaf.NotAfter.Sub(now)))
	}
	return l.all
}

// files checks that all files can be read, and that the key is private.
func (l *list) files(dir string) bool {
	complete := true
	for _, name := range []string{shardclient.CAFile, shardclient.CertFile, shardclient.KeyFile} {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			l.add(Fail, path, "name the folder of an identity with --identity-dir or identity_dir of the context, or "+newIdentity, "it does not exist")
			complete = false
		case err != nil:
			l.add(Fail, path, "give this user the right to read it", "it cannot be read: %v", err)
			complete = false
		case name == shardclient.KeyFile && info.Mode().Perm()&0o077 != 0:
			l.add(Fail, path, "chmod 0600 "+path+"; if others may have read it, "+newIdentity, "others can read the private key: mode %04o", info.Mode().Perm())
		}
	}
	return complete
}

// certificate reads the certificate, which must belong to the key.
func (l *list) certificate(dir string) *x509.Certificate {
	cert, key := filepath.Join(dir, shardclient.CertFile), filepath.Join(dir, shardclient.KeyFile)
	pair, err := tls.LoadX509KeyPair(cert, key)
	switch {
	case err == nil:
		return pair.Leaf
	case errors.Is(err, fs.ErrPermission):
		l.add(Fail, key, "give this user the right to read it", "it cannot be read")
	case has(err.Error(), "does not match"):
		l.add(Fail, dir, "put the key that belongs to the certificate there, or "+newIdentity, "certificate and key do not belong together")
	default:
		l.add(Fail, dir, newIdentity, "certificate or key cannot be used: %v", err)
	}
	return nil
}

func (l *list) times(dir string, leaf *x509.Certificate, now time.Time) {
	switch {
	case now.Before(leaf.NotBefore):
		l.add(Fail, dir, setClock, "the certificate begins in %s: the clock of this machine is behind", span(leaf.NotBefore.Sub(now)))
	case now.After(leaf.NotAfter):
		l.add(Fail, dir, newIdentity, "the certificate has ended %s ago", span(now.Sub(leaf.NotAfter)))
	case leaf.NotAfter.Sub(now) < soon:
		l.add(Warn, dir, newIdentity, "the certificate ends in %s", span(leaf.NotAfter.Sub(now)))
	}
}

// chain checks that the CA bundle beside the certificate is the one that issued it.
func (l *list) chain(dir string, leaf *x509.Certificate, now time.Time) {
	path := filepath.Join(dir, shardclient.CAFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return // files has said so
	}
	roots := x509.NewCertPool()
	if block, _ := pem.Decode(data); block == nil || !roots.AppendCertsFromPEM(data) {
		l.add(Fail, path, "copy ca.crt from the bucket of the cluster", "it holds no certificate")
		return
	}
	at := now
	if at.Before(leaf.NotBefore) || at.After(leaf.NotAfter) {
		at = leaf.NotBefore.Add(time.Second) // the time is another finding
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		l.add(Fail, path, "copy ca.crt from the bucket of the cluster that issued the certificate", "it did not issue the certificate: %v", err)
	}
}
