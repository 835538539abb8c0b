package hostile

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	_ "embed"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"sync/atomic"
	"testing"
	"text/template"
	"time"

	"nstance.dev/e2e/env/box"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/providers/local"
	"nstance.dev/server/driver"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
)

//go:embed testdata/cluster.jsonc.tmpl
var clusterText string

// population is how many machines that do nothing each tenant has.
type population map[string]int

// What is asked of a machine that has registered once cannot be asked of it again: areas that
// are not apart share many, the others have few of their own.
var (
	many = population{identity.DefaultTenant: 80, "acme": 40, "zeta": 32}
	few  = population{identity.DefaultTenant: 12, "acme": 12, "zeta": 12}
)

// ourToken is the secret in the files of the default tenant's template "ours".
const ourToken = "the token of the default tenant 5b1c77e0"

// world is a cluster that is attacked, and what its attackers know. Its methods are safe
// for concurrent use unless they say otherwise; those of the box say it themselves.
type world struct {
	*box.Box

	tenants   population
	server    *box.Process
	addrs     driver.Addresses
	authority *x509.Certificate
	roots     *x509.CertPool
	caKey     ed25519.PrivateKey
	nonceKeys []ed25519.PrivateKey // the first one signs

	insiders
	web web

	nonces  map[string]chan outstanding // by tenant
	victim  outstanding                 // whose nonce is forged, and never used
	sources atomic.Uint32
}

// outstanding is a machine that has not registered, with its nonce.
type outstanding struct {
	tenant string
	id     identity.ID
	token  string
}

// newWorld brings a cluster up, whose server has some flags, and waits for its machines.
func newWorld(t *testing.T, tenants population, flags ...string) *world {
	t.Helper()
	return newWorldFrom(t, filepath.Dir(program(t, "nstance-server-local")), tenants, flags...)
}

// newWorldFrom is [newWorld] with the programs of a directory.
func newWorldFrom(t *testing.T, dir string, tenants population, flags ...string) *world {
	t.Helper()
	b := box.New(t)
	b.From(dir)
	w := &world{Box: b, tenants: tenants, nonces: map[string]chan outstanding{}}
	w.configure(t)
	w.server = b.Serve("leader", flags...)
	b.Await("the server leads", func() error { return b.Leads("leader") })
	addrs, err := b.Leader()
	if err != nil {
		t.Fatal(err)
	}
	w.addrs = addrs
	w.readKeys(t)
	w.collectNonces()
	w.victim = w.outstanding(t, identity.DefaultTenant)
	return w
}

// leadsCluster waits until the server enrols operators: that takes it the time of a lease.
func (w *world) leadsCluster(t *testing.T) {
	t.Helper()
	w.Await("the server leads the cluster", func() error {
		_, err := w.newcomer(t).RegisterOperator(call(t), &nstancev1.RegisterClientRequest{})
		if reasonOf(err) == "NOT_CLUSTER_LEADER" {
			return err
		}
		return nil
	})
}

// configure puts all that the cluster needs before its first server into the box.
func (w *world) configure(t *testing.T) {
	t.Helper()
	w.Configure(1, 10*time.Second) // directories and the key; the configuration is another
	asJSON := func(v any) (string, error) {
		text, err := json.Marshal(v)
		return string(text), err
	}
	form, err := template.New("cluster").Funcs(template.FuncMap{"json": asJSON}).Parse(clusterText)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	err = form.Execute(&text, map[string]any{
		"MachinesDir": w.Path("machines"), "KeyPath": w.KeyPath(), "Arch": runtime.GOARCH,
		"Userdata": local.DefaultUserData, "Mute": "#!/bin/sh\n# {{ .Nonce }}\nexec sleep 100000\n",
		"Default": w.tenants[identity.DefaultTenant], "Acme": w.tenants["acme"], "Zeta": w.tenants["zeta"],
	})
	if err != nil {
		t.Fatal(err)
	}
	w.SetConfig(text.String())
	w.Cluster("init", "--cluster-id", box.Cluster)
	for tenant := range w.tenants {
		w.Cluster("register-operator", "--tenant", tenant, "--output-dir", w.operatorDir(tenant))
	}
	if err := w.Secrets().Put(t.Context(), "token", secrets.Secret(ourToken), secrets.CreateOnly); err != nil {
		t.Fatal(err)
	}
	context, err := json.Marshal(map[string]any{
		"cluster_id": box.Cluster, "tenant": identity.DefaultTenant, "identity_dir": w.Identity(), "shard": box.Shard,
		"leader_file": w.Path("machines", "leader.json"),
	})
	if err == nil {
		err = os.WriteFile(w.ContextPath(), context, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// operatorDir is the folder with the identity of a tenant's operator.
func (w *world) operatorDir(tenant string) string {
	if tenant == identity.DefaultTenant {
		return w.Identity()
	}
	return w.Path("operator-" + tenant)
}

// readKeys takes the keys of the cluster.
func (w *world) readKeys(t *testing.T) {
	t.Helper()
	sealed := w.Secrets()
	private := map[string][]ed25519.PrivateKey{}
	for _, name := range []string{pki.CAKeySecret, pki.NonceKeySecret} {
		text, err := sealed.Get(t.Context(), name)
		if err == nil {
			private[name], err = pki.ParsePrivateKeys(text)
		}
		if err != nil {
			t.Fatalf("secret %s: %v", name, err)
		}
	}
	w.caKey, w.nonceKeys = private[pki.CAKeySecret][0], private[pki.NonceKeySecret]
	text, err := os.ReadFile(w.Path("bucket", pki.CACertKey))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatal("the certificate of the authority is not PEM")
	}
	if w.authority, err = x509.ParseCertificate(block.Bytes); err != nil {
		t.Fatal(err)
	}
	w.roots = x509.NewCertPool()
	w.roots.AddCert(w.authority)
}

var tokenForm = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`)

// collectNonces waits until all machines that do nothing are there, and takes their nonces.
func (w *world) collectNonces() {
	want := 0
	for tenant, n := range w.tenants {
		w.nonces[tenant] = make(chan outstanding, n)
		want += n
	}
	seen := map[string]bool{}
	w.Await("all nonces are there", func() error {
		for _, id := range w.Directories() {
			text, err := os.ReadFile(w.Path("machines", id, "userdata"))
			if err != nil || seen[id] || identity.ID(id).Prefix() != "mut" {
				continue
			}
			token := tokenForm.FindString(string(text))
			claims, err := identity.DecodeNonceUnverified(token)
			if err != nil {
				return fmt.Errorf("the nonce of %s: %w", id, err)
			}
			seen[id] = true
			w.nonces[claims.Tenant] <- outstanding{claims.Tenant, identity.ID(id), token}
		}
		if len(seen) < want {
			return fmt.Errorf("%d of %d machines", len(seen), want)
		}
		return nil
	})
}

// outstanding returns a machine that nobody else has, and whose nonce is good.
func (w *world) outstanding(t *testing.T, tenant string) outstanding {
	t.Helper()
	select {
	case o := <-w.nonces[tenant]:
		return o
	default:
		t.Fatalf("there are %d machines of %s, and all are taken: the world needs more", w.tenants[tenant], tenant)
		return outstanding{}
	}
}
