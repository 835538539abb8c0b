package credentials_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nstance.dev/agent/agenttest"
	"nstance.dev/agent/credentials"
	"nstance.dev/protos/identity"
)

type machine struct {
	*agenttest.Cluster
	t    *testing.T
	path string
	id   identity.ID
	dir  *credentials.Dir
}

func newMachine(t *testing.T) *machine {
	m := &machine{Cluster: agenttest.NewCluster(t), t: t, path: filepath.Join(t.TempDir(), "identity"), id: agenttest.NewID(t)}
	m.dir = m.open(m.id)
	m.UserData(m.path, m.id)
	return m
}

func (m *machine) open(id identity.ID) *credentials.Dir {
	m.t.Helper()
	dir, err := credentials.Open(m.path, 0o600, 0o700, id)
	if err != nil {
		m.t.Fatal(err)
	}
	return dir
}

func (m *machine) write(name, content string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.path, name), []byte(content), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// register stores a certificate over the machine's own key.
func (m *machine) register(life time.Duration) credentials.Identity {
	m.t.Helper()
	key, err := m.dir.Key()
	if err != nil {
		m.t.Fatal(err)
	}
	public, err := credentials.PublicKeyPEM(key)
	if err != nil {
		m.t.Fatal(err)
	}
	id, err := m.dir.StoreCertificate(m.Issue(public, m.id, life))
	if err != nil {
		m.t.Fatal(err)
	}
	return id
}

func TestIdentityOfARegisteredMachine(t *testing.T) {
	m := newMachine(t)
	if _, err := m.dir.Identity(); !errors.Is(err, credentials.ErrNoIdentity) {
		t.Errorf("error %v before registration, want %v", err, credentials.ErrNoIdentity)
	}
	stored := m.register(time.Hour)
	id, err := m.open(m.id).Identity()
	if err != nil {
		t.Fatal(err)
	}
	if id.Peer != stored.Peer || id.Peer.ID != m.id || id.ServerName() != "us-west-2a.example.nstance" {
		t.Errorf("identity %+v for %q", id.Peer, id.ServerName())
	}
	if id.Expired(time.Now()) || !id.Expired(time.Now().Add(2*time.Hour)) {
		t.Error("it ends at another time than its certificate")
	}
}

func TestS14_FilesAreForTheOwnerAlone(t *testing.T) {
	m := newMachine(t)
	m.register(time.Hour)
	for _, name := range []string{"", credentials.KeyFile, credentials.CertificateFile} {
		info, err := os.Stat(filepath.Join(m.path, name))
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%q: mode %v, error %v", name, info.Mode(), err)
		}
	}
}

func TestKeyIsKept(t *testing.T) {
	m := newMachine(t)
	first, err := m.dir.Key()
	if err != nil {
		t.Fatal(err)
	}
	again, err := m.open(m.id).Key()
	if err != nil || !first.Equal(again) {
		t.Errorf("another key after a restart, error %v", err)
	}
	for _, content := range []string{"", "garbage", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		m.write(credentials.KeyFile, content)
		if _, err := m.dir.Key(); err == nil {
			t.Errorf("a key was read from %q", content)
		}
	}
}

func TestCertificatesThatAreNotOurs(t *testing.T) {
	m := newMachine(t)
	key, err := m.dir.Key()
	if err != nil {
		t.Fatal(err)
	}
	public, err := credentials.PublicKeyPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	other := newMachine(t)
	otherKey, err := other.dir.Key()
	if err != nil {
		t.Fatal(err)
	}
	otherPublic, err := credentials.PublicKeyPEM(otherKey)
	if err != nil {
		t.Fatal(err)
	}
	good := m.Issue(public, m.id, time.Hour)
	for _, tt := range []struct {
		name string
		cert []byte
	}{
		{"nothing", nil},
		{"garbage", []byte("garbage")},
		{"two certificates", append(bytes.Clone(good), good...)},
		{"another key's", m.Issue(otherPublic, m.id, time.Hour)},
		{"another instance's", m.Issue(public, other.id, time.Hour)},
		{"the authority's", m.CA()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := m.dir.StoreCertificate(tt.cert); err == nil {
				t.Error("it was stored")
			}
			m.write(credentials.CertificateFile, string(tt.cert))
			if _, err := m.dir.Identity(); !errors.Is(err, credentials.ErrNoIdentity) {
				t.Errorf("error %v, want %v", err, credentials.ErrNoIdentity)
			}
			if err := os.Remove(filepath.Join(m.path, credentials.CertificateFile)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestF35_AMachineMadeFromAnImageGetsAKeyOfItsOwn(t *testing.T) {
	m := newMachine(t)
	m.register(time.Hour)
	before, err := m.dir.Key()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.dir.ForgetOther(); err != nil {
		t.Fatal(err)
	}
	if kept, err := m.dir.Key(); err != nil || !kept.Equal(before) {
		t.Errorf("the machine's own key was thrown away, error %v", err)
	}
	clone := m.open(agenttest.NewID(t))
	if err := clone.ForgetOther(); err != nil {
		t.Fatal(err)
	}
	after, err := clone.Key()
	if err != nil || after.Equal(before) {
		t.Errorf("the clone has the key of its original, error %v", err)
	}
}

func TestNonce(t *testing.T) {
	m := newMachine(t)
	token, claims, err := m.dir.Nonce()
	if err != nil || claims.Subject != m.id.String() || strings.TrimSpace(token) != token {
		t.Fatalf("claims %+v, error %v", claims, err)
	}
	foreign := agenttest.Claims(agenttest.NewID(t), time.Minute)
	operators := identity.NonceClaims{
		Kind: identity.NonceOperator, Subject: agenttest.ClusterID, ClusterID: agenttest.ClusterID, Tenant: agenttest.Tenant,
		IssuedAt: 1, NotBefore: 1, ExpiresAt: 2, TokenID: foreign.TokenID,
	}
	for name, content := range map[string]string{
		"another instance's": m.Sign(foreign), "an operator's": m.Sign(operators), "garbage": "garbage", "empty": "",
	} {
		m.write(credentials.NonceFile, content)
		if _, _, err := m.dir.Nonce(); !errors.Is(err, identity.ErrNonceForm) || len(content) > 20 && strings.Contains(err.Error(), content) {
			t.Errorf("%s: error %v, want %v", name, err, identity.ErrNonceForm)
		}
	}
	for range 2 {
		if err := m.dir.DiscardNonce(); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := m.dir.Nonce(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want %v", err, fs.ErrNotExist)
	}
}

func TestRootsMayBeABundle(t *testing.T) {
	m := newMachine(t)
	m.write(credentials.CAFile, string(m.CA())+string(agenttest.NewCluster(t).CA()))
	if _, err := m.dir.Roots(); err != nil {
		t.Error(err)
	}
	for _, content := range []string{"", "garbage", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		m.write(credentials.CAFile, content)
		if _, err := m.dir.Roots(); err == nil {
			t.Errorf("roots were read from %q", content)
		}
	}
}

func TestConfigHash(t *testing.T) {
	m := newMachine(t)
	if hash, err := m.dir.ConfigHash(); hash != "" || err != nil {
		t.Errorf("hash %q, error %v", hash, err)
	}
	if err := m.dir.StoreConfigHash("sha256:1"); err != nil {
		t.Fatal(err)
	}
	if hash, err := m.open(m.id).ConfigHash(); hash != "sha256:1" || err != nil {
		t.Errorf("hash %q, error %v", hash, err)
	}
}

func TestL10_RenewAt(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	end := start.Add(720 * time.Hour)
	if got, want := credentials.RenewAt(start, end), start.Add(480*time.Hour); !got.Equal(want) {
		t.Errorf("RenewAt = %v, want %v", got, want)
	}
	for _, tt := range []struct{ left, want time.Duration }{
		{240 * time.Hour, time.Hour},
		{4 * time.Hour, time.Hour},
		{2 * time.Hour, 30 * time.Minute},
		{20 * time.Second, 10 * time.Second},
		{-time.Hour, 10 * time.Second},
	} {
		if got := credentials.RetryRenewal(end.Add(-tt.left), end); got != tt.want {
			t.Errorf("with %v left: %v, want %v", tt.left, got, tt.want)
		}
	}
}
