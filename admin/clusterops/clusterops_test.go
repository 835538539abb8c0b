package clusterops_test

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nstance.dev/admin/clusterops"
	"nstance.dev/protos/identity"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore/file"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
)

var now = time.Now().Truncate(time.Second)

// world is the storage of a cluster called dev, as a leader has set it up.
type world struct {
	settings clusterops.Settings
	objects  *file.Store
	secrets  secrets.Store
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	keyFile := filepath.Join(dir, "encryption.key")
	if err := os.WriteFile(keyFile, []byte("hex:"+strings.Repeat("ab", secrets.KeySize)), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &world{settings: clusterops.Settings{
		StorageProvider: "file", Bucket: filepath.Join(dir, "bucket"), SecretsProvider: "object-storage",
		KeyProvider: "file", KeySource: keyFile,
	}}
	var err error
	if w.objects, err = file.New(w.settings.Bucket); err != nil {
		t.Fatal(err)
	}
	source, err := secrets.OpenKeySource("file", keyFile)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := secrets.LoadKeys(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	if w.secrets, err = secrets.NewSealed(w.objects, "", keys); err != nil {
		t.Fatal(err)
	}
	return w
}

// bootstrap makes the keys of the cluster, as its first leader does.
func (w *world) bootstrap(t *testing.T) []ed25519.PrivateKey {
	t.Helper()
	opts := pki.Options{Create: true}
	if _, err := pki.EnsureCA(t.Context(), w.secrets, w.objects, "dev", pki.CATemplate{}, opts); err != nil {
		t.Fatal(err)
	}
	keys, err := pki.EnsureNonceKeys(t.Context(), w.secrets, opts)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func (w *world) open(t *testing.T) *clusterops.Cluster {
	t.Helper()
	cluster, err := clusterops.Open(t.Context(), w.settings)
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

func TestNonce(t *testing.T) {
	w := newWorld(t)
	keys := w.bootstrap(t)
	token, err := w.open(t).Nonce(t.Context(), clusterops.NonceRequest{ClusterID: "dev", Tenant: "red", Expiry: 3 * time.Hour, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	claims, err := pki.NewNonceVerifier("dev", keys).Verify(token, now)
	if err != nil {
		t.Fatal(err)
	}
	if claims.Kind != identity.NonceOperator || claims.Tenant != "red" || !claims.Expiry().Equal(now.Add(3*time.Hour)) {
		t.Errorf("claims are %+v", claims)
	}
}

// TestNonceIsForATenantThatExists: a name that is mistyped is refused with those that there
// are, where the bucket says.
func TestNonceIsForATenantThatExists(t *testing.T) {
	w := newWorld(t)
	w.bootstrap(t)
	configs := map[string]string{
		"config/a.jsonc": `"tenants": {"red": {}},`, "config/b.jsonc": `"tenants": {"blue": {}},`,
	}
	for key, tenants := range configs {
		shard := strings.TrimSuffix(strings.TrimPrefix(key, "config/"), ".jsonc")
		text := `{` + tenants + ` "server": {"cluster_id": "dev", "shard": "` + shard + `", "provider": {"kind": "local", "zone": "z"}, "subnet_pools": {"p": ["n"]}}}`
		if _, err := w.objects.PutIfAbsent(t.Context(), key, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for tenant, want := range map[string]string{
		"red": "", "blue": "", "default": "", "bleu": `tenant "bleu": no configuration in the bucket has it; they have blue, default, red`,
	} {
		_, err := w.open(t).Nonce(t.Context(), clusterops.NonceRequest{ClusterID: "dev", Tenant: tenant, Expiry: time.Hour, Now: now})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", tenant, err, want)
		}
	}
	if _, err := w.objects.PutIfAbsent(t.Context(), "config/c.jsonc", []byte("{")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.open(t).Nonce(t.Context(), clusterops.NonceRequest{ClusterID: "dev", Tenant: "green", Expiry: time.Hour, Now: now}); err != nil {
		t.Errorf("where a configuration cannot be read: %v", err)
	}
}

func TestNonceRefusesBadRequests(t *testing.T) {
	w := newWorld(t)
	w.bootstrap(t)
	for name, r := range map[string]clusterops.NonceRequest{
		"no cluster":     {Tenant: "red", Expiry: time.Hour},
		"a bad tenant":   {ClusterID: "dev", Tenant: "Red", Expiry: time.Hour},
		"no life at all": {ClusterID: "dev", Tenant: "red"},
	} {
		r.Now = now
		if token, err := w.open(t).Nonce(t.Context(), r); err == nil || token != "" {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestAClusterWithoutKeysIsNotSetUpHere(t *testing.T) {
	w := newWorld(t)
	cluster := w.open(t)
	_, nonceErr := cluster.Nonce(t.Context(), clusterops.NonceRequest{ClusterID: "dev", Tenant: "red", Expiry: time.Hour, Now: now})
	_, operatorErr := cluster.RegisterOperator(t.Context(), clusterops.OperatorRequest{ClusterID: "dev", Tenant: "red", Now: now})
	for _, err := range []error{nonceErr, operatorErr} {
		if !errors.Is(err, pki.ErrNotInitialized) || !strings.Contains(err.Error(), "start one first") {
			t.Errorf("error is %v", err)
		}
	}
	page, err := w.objects.List(t.Context(), "", "", 0)
	if err != nil || len(page.Objects) > 0 {
		t.Errorf("the storage holds %v, %v", page.Objects, err)
	}
}

func TestRegisterOperator(t *testing.T) {
	w := newWorld(t)
	w.bootstrap(t)
	operator, err := w.open(t).RegisterOperator(t.Context(), clusterops.OperatorRequest{ClusterID: "dev", Tenant: "red", TTL: time.Hour, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(operator.CertPEM, operator.KeyPEM)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(operator.CAPEM)
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: usage}); err != nil {
		t.Error(err)
	}
	peer, err := identity.PeerFromCertificate(pair.Leaf)
	if err != nil || peer.Role != identity.RoleOperator || peer.Tenant != "red" || peer.ID != operator.ID || !peer.NotAfter.Equal(now.Add(time.Hour)) {
		t.Errorf("the certificate is of %+v, %v", peer, err)
	}
	key := layout.OperatorKey("red", operator.ID)
	object, err := w.objects.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	record, err := layout.DecodeOperatorRecord(key, object.Data)
	if err != nil || record.Certificate.Serial != peer.Serial || record.ClusterID != "dev" || !record.RegisteredAt.Equal(now) {
		t.Errorf("the record is %+v, %v", record, err)
	}
}

func TestRegisterViewer(t *testing.T) {
	w := newWorld(t)
	w.bootstrap(t)
	viewer, err := w.open(t).RegisterOperator(t.Context(), clusterops.OperatorRequest{ClusterID: "dev", Tenant: "red", Role: identity.RoleViewer, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	certs, err := pki.ParseCertificates(viewer.CertPEM)
	if err != nil {
		t.Fatal(err)
	}
	if peer, err := identity.PeerFromCertificate(certs[0]); err != nil || peer.Role != identity.RoleViewer {
		t.Errorf("the certificate is of %+v, %v", peer, err)
	}
	state, err := w.open(t).Inspect(t.Context())
	if err != nil || len(state.Operators) != 1 || state.Operators[0].Role != "viewer" {
		t.Errorf("the operators are %+v, %v", state.Operators, err)
	}
	_, err = w.open(t).RegisterOperator(t.Context(), clusterops.OperatorRequest{ClusterID: "dev", Tenant: "red", Role: identity.RoleAgent, Now: now})
	if !errors.Is(err, pki.ErrRequest) {
		t.Errorf("of role agent the error is %v", err)
	}
}

func TestRegisterOperatorForAGivenKey(t *testing.T) {
	w := newWorld(t)
	w.bootstrap(t)
	key, err := pki.NewPrivateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	public, err := pki.EncodePublicKey(key.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	operator, err := w.open(t).RegisterOperator(t.Context(), clusterops.OperatorRequest{ClusterID: "dev", Tenant: "red", PublicKeyPEM: public, Now: now})
	if err != nil || operator.KeyPEM != nil {
		t.Fatalf("operator has a private key: %v, error %v", operator.KeyPEM != nil, err)
	}
	certs, err := pki.ParseCertificates(operator.CertPEM)
	if err != nil || !key.Public().(ed25519.PublicKey).Equal(certs[0].PublicKey) {
		t.Errorf("the certificate is for another key, %v", err)
	}
	_, err = w.open(t).RegisterOperator(t.Context(), clusterops.OperatorRequest{ClusterID: "dev", Tenant: "red", PublicKeyPEM: []byte("x"), Now: now})
	if !errors.Is(err, pki.ErrPublicKey) {
		t.Errorf("for a bad key the error is %v", err)
	}
}

func TestAnOperatorIDIsGivenOnce(t *testing.T) {
	w := newWorld(t)
	w.bootstrap(t)
	id, err := identity.NewID(identity.OperatorPrefix)
	if err != nil {
		t.Fatal(err)
	}
	request := clusterops.OperatorRequest{ClusterID: "dev", Tenant: "red", ID: id, Now: now}
	if _, err := w.open(t).RegisterOperator(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if _, err := w.open(t).RegisterOperator(t.Context(), request); !errors.Is(err, clusterops.ErrOperatorExists) {
		t.Errorf("the second time the error is %v", err)
	}
	request.ID = "knc068a3cp3thz5z2mv1gejwftabc"
	if _, err := w.open(t).RegisterOperator(t.Context(), request); err == nil {
		t.Error("the id of an instance is accepted")
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*clusterops.Settings)
		want   string
	}{
		"an unknown storage":         {func(s *clusterops.Settings) { s.StorageProvider = "nfs" }, `unknown kind of storage "nfs"`},
		"no bucket":                  {func(s *clusterops.Settings) { s.Bucket = "" }, "no name"},
		"a bucket that is not there": {func(s *clusterops.Settings) { s.Bucket += "x" }, "no such file"},
		"unknown secrets":            {func(s *clusterops.Settings) { s.SecretsProvider = "vault" }, `unknown secrets provider "vault"`},
		"a key that is not needed":   {func(s *clusterops.Settings) { s.SecretsProvider = "aws-secrets-manager" }, "takes no key"},
		"no project":                 {func(s *clusterops.Settings) { s.SecretsProvider, s.KeyProvider = "google-secret-manager", "" }, "needs the project"},
		"no project of the key":      {func(s *clusterops.Settings) { s.KeyProvider = "google-secret-manager" }, "needs the project"},
		"a bad id":                   {func(s *clusterops.Settings) { s.ClusterID = "a/b" }, "id of the cluster"},
		"no key provider":            {func(s *clusterops.Settings) { s.KeyProvider = "" }, "name its provider"},
		"a project":                  {func(s *clusterops.Settings) { s.SecretsProject = "p" }, "has no projects"},
	} {
		t.Run(name, func(t *testing.T) {
			settings := newWorld(t).settings
			test.change(&settings)
			_, err := clusterops.Open(t.Context(), settings)
			if !errors.Is(err, clusterops.ErrSettings) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want one that says %q", err, test.want)
			}
		})
	}
}

func TestAnotherEncryptionKeyOpensNothing(t *testing.T) {
	w := newWorld(t)
	w.bootstrap(t)
	if err := os.WriteFile(w.settings.KeySource, []byte("hex:"+strings.Repeat("cd", secrets.KeySize)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := w.open(t).Nonce(t.Context(), clusterops.NonceRequest{ClusterID: "dev", Tenant: "red", Expiry: time.Hour, Now: now})
	if !errors.Is(err, secrets.ErrUnreadable) {
		t.Errorf("error is %v", err)
	}
}
