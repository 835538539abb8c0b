package rpc_test

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/url"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/protos/identity"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/operatorauth"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
)

const operatorID = identity.ID("opr068a3cp3thz5z2mv1gejwftabc")

// forgery is a client certificate that is wrong in some way.
type forgery struct {
	organizations []string
	role          identity.Role // empty: no extension
	uri           *url.URL
	lives         time.Duration // from now
	usage         x509.ExtKeyUsage
	ca            bool
	issuer        *pki.CA // nil: signed by its own key
	issuerKey     ed25519.PrivateKey
	serial        *big.Int           // nil: any
	key           ed25519.PrivateKey // nil: a new one
}

// caKey reads the authority's private key, which only a thief of the bucket
// could do, to make what the authority would never issue.
func caKey(t *testing.T, store *memory.Store) ed25519.PrivateKey {
	t.Helper()
	sealed, err := secrets.NewSealed(store, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := sealed.Get(t.Context(), "ca.key")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := pki.ParsePrivateKeys(data)
	if err != nil {
		t.Fatal(err)
	}
	return keys[0]
}

func (f forgery) make(t *testing.T) tls.Certificate {
	t.Helper()
	key := f.key
	if key == nil {
		key = newKey(t)
	}
	template := &x509.Certificate{
		SerialNumber: cmp.Or(f.serial, big.NewInt(4711)), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(f.lives),
		Subject:     pkix.Name{CommonName: cluster, Organization: f.organizations},
		ExtKeyUsage: []x509.ExtKeyUsage{f.usage}, KeyUsage: x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true, IsCA: f.ca, URIs: []*url.URL{f.uri},
	}
	if f.role != "" {
		template.ExtraExtensions = []pkix.Extension{identity.RoleExtension(f.role)}
	}
	parent, signer := template, key
	if f.issuer != nil {
		parent, signer = f.issuer.Certificate(), f.issuerKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// sound is a forgery by the cluster's own key in which all is right but what a
// case changes.
func (w *world) sound(change func(*forgery)) tls.Certificate {
	w.t.Helper()
	f := forgery{
		organizations: []string{"default"}, role: identity.RoleOperator, uri: identity.OperatorURI(cluster, operatorID),
		lives: time.Hour, usage: x509.ExtKeyUsageClientAuth, issuer: w.authority.CA(), issuerKey: caKey(w.t, w.store),
	}
	change(&f)
	return f.make(w.t)
}

func TestF43_Certificates(t *testing.T) {
	w := newWorld(t, worldOptions{})
	other := newWorld(t, worldOptions{standby: true}) // another CA with the same name
	cases := []struct {
		name   string
		cert   tls.Certificate
		code   codes.Code // Unavailable: the handshake fails
		reason string
	}{
		{"self-signed", w.sound(func(f *forgery) { f.issuer = nil }), codes.Unavailable, ""},
		{"of another authority with the same name", other.sound(func(*forgery) {}), codes.Unavailable, ""},
		{"expired", w.sound(func(f *forgery) { f.lives = -time.Hour }), codes.Unavailable, ""},
		{"for servers", w.sound(func(f *forgery) { f.usage = x509.ExtKeyUsageServerAuth }), codes.Unavailable, ""},
		{"of an authority", w.sound(func(f *forgery) { f.ca = true }), codes.Unavailable, ""},
		{"without a role", w.sound(func(f *forgery) { f.role = "" }), codes.PermissionDenied, "WRONG_ROLE"},
		{"without a tenant", w.sound(func(f *forgery) { f.organizations = nil }), codes.Unauthenticated, "BAD_CERTIFICATE"},
		{"of two tenants", w.sound(func(f *forgery) { f.organizations = []string{"b", "default"} }), codes.Unauthenticated, "BAD_CERTIFICATE"},
		{"of an unknown tenant", w.sound(func(f *forgery) { f.organizations = []string{"gone"} }), codes.PermissionDenied, "UNKNOWN_TENANT"},
		{"of nobody registered", w.sound(func(*forgery) {}), codes.PermissionDenied, "UNKNOWN_OPERATOR"},
		{"of an agent", w.sound(func(f *forgery) {
			f.role, f.uri = identity.RoleAgent, identity.AgentURI(cluster, shardName, "vmx068a3cp3thz5z2mv1gejwftabc")
		}), codes.Unauthenticated, "BAD_CERTIFICATE"}, // its common name is the operator's
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			conn := w.dial(w.operator, credentials.NewTLS(w.clientTLS(c.cert)))
			_, err := nstancev1.NewOperatorServiceClient(conn).ListGroups(t.Context(), &emptypb.Empty{})
			wantCode(t, err, c.code, c.reason)
		})
	}
}

// A viewer's certificate opens the calls that read, each of them, and no other one: those
// that change something answer before they look at their request.
func TestF43_ViewersRead(t *testing.T) {
	w := newWorld(t, worldOptions{})
	conn := w.reach(w.operator, w.certOf("default", identity.RoleViewer))
	refused := func(err error) bool { return reasonOf(status.Convert(err)) == "READ_ONLY" }
	reads := map[string]bool{
		"RenewCertificate": true, "GetConfigStatus": true, "PlanConfig": true, "ListGroups": true, "GetInstanceStatus": true,
		"ListInstances": true, "GetServerInfo": true, "Explain": true, "GetDemand": true, "ListHeldVMs": true, "GetTenantStatus": true, "GetOperation": true,
		"CheckGroup": true,
	}
	service := nstancev1.OperatorService_ServiceDesc
	for _, m := range service.Methods {
		err := conn.Invoke(t.Context(), "/"+service.ServiceName+"/"+m.MethodName, &emptypb.Empty{}, &emptypb.Empty{})
		if refused(err) == reads[m.MethodName] {
			t.Errorf("%s answers a viewer with %v", m.MethodName, err)
		}
	}
	api := nstancev1.NewOperatorServiceClient(conn)
	groups, err := api.WatchGroups(t.Context(), &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	instances, err := api.WatchInstances(t.Context(), &nstancev1.WatchInstancesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := instances.Recv(); err != nil {
		t.Errorf("a viewer watches instances: %v", err)
	}
	_, _ = w.operatorOf("default").UpsertGroup(t.Context(), &nstancev1.UpsertGroupRequest{
		Key: "seen", Config: &nstancev1.GroupConfig{Template: new("plain"), Size: new(int32(0))},
	})
	if e, err := groups.Recv(); err != nil || e.GetGroup().GetKey() != "seen" {
		t.Errorf("a viewer watches groups: %v, %v", e, err)
	}
	instances, err = api.WatchInstances(t.Context(), &nstancev1.WatchInstancesRequest{CoordinatesDrains: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = instances.Recv()
	wantCode(t, err, codes.PermissionDenied, "READ_ONLY")
	session, err := demandpb.NewShardServiceClient(conn).Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = session.Recv()
	wantCode(t, err, codes.PermissionDenied, "READ_ONLY")
}

// Whoever has the key of the authority makes no operator of a viewer, nor the other way round:
// the record says which of the two it is.
func TestF43_TheRecordNamesTheRole(t *testing.T) {
	w := newWorld(t, worldOptions{})
	for role, other := range map[identity.Role]identity.Role{identity.RoleViewer: identity.RoleOperator, identity.RoleOperator: identity.RoleViewer} {
		cert := w.certOf("default", role)
		who, err := identity.PeerFromCertificate(cert.Leaf)
		if err != nil {
			t.Fatal(err)
		}
		forged := w.sound(func(f *forgery) {
			f.role, f.uri, f.serial, f.key = other, identity.OperatorURI(cluster, who.ID), cert.Leaf.SerialNumber, cert.PrivateKey.(ed25519.PrivateKey)
		})
		conn := w.dial(w.operator, credentials.NewTLS(w.clientTLS(forged)))
		_, err = nstancev1.NewOperatorServiceClient(conn).ListGroups(t.Context(), &emptypb.Empty{})
		wantCode(t, err, codes.PermissionDenied, "UNKNOWN_OPERATOR")
	}
}

func TestF43_RolesAndPorts(t *testing.T) {
	w := newWorld(t, worldOptions{})
	op := w.operatorOf("default")
	id, agent := w.registered(op)
	if _, err := op.ListGroups(t.Context(), &emptypb.Empty{}); err != nil {
		t.Fatalf("an operator on its port: %v", err)
	}
	stream := w.connect(agent, id)
	if _, err := stream.Recv(); err != nil {
		t.Fatalf("an agent on its port: %v", err)
	}

	_, err := nstancev1.NewOperatorServiceClient(w.reach(w.operator, w.agentCert(id))).ListGroups(t.Context(), &emptypb.Empty{})
	wantCode(t, err, codes.PermissionDenied, "WRONG_ROLE")
	_, err = w.connect(w.reach(w.agent, w.operatorCert(op)), id).Recv()
	wantCode(t, err, codes.PermissionDenied, "WRONG_ROLE")
	_, err = w.connect(w.reach(w.agent, w.agentCert("vmx068a3cp3thz5z2mv1gejwftabc")), "vmx068a3cp3thz5z2mv1gejwftabc").Recv()
	wantCode(t, err, codes.PermissionDenied, "UNKNOWN_INSTANCE")
	_, err = w.connect(w.reach(w.agent, w.agentCert(id)), id).Recv()
	wantCode(t, err, codes.PermissionDenied, "CERTIFICATE_SUPERSEDED")
}

func TestF44_Downgrades(t *testing.T) {
	w := newWorld(t, worldOptions{})
	old := w.clientTLS(w.operatorCert(w.operatorOf("default")))
	old.MaxVersion = tls.VersionTLS12
	cases := map[string]credentials.TransportCredentials{
		"TLS 1.2":        credentials.NewTLS(old),
		"no certificate": credentials.NewTLS(w.clientTLS()),
		"plain text":     insecure.NewCredentials(),
	}
	for name, creds := range cases {
		_, err := nstancev1.NewOperatorServiceClient(w.dial(w.operator, creds)).ListGroups(t.Context(), &emptypb.Empty{})
		wantCode(t, err, codes.Unavailable, "")
		if t.Failed() {
			t.Fatalf("that was %s", name)
		}
	}
	old.Certificates = nil
	for name, creds := range map[string]credentials.TransportCredentials{"TLS 1.2": credentials.NewTLS(old), "plain text": insecure.NewCredentials()} {
		client := nstancev1.NewRegistrationServiceClient(w.dial(w.registration, creds))
		_, err := client.RegisterOperator(t.Context(), request(t, w.operatorNonce("default"), newKey(t)))
		if err == nil {
			t.Errorf("registration over %s was accepted", name)
		}
	}
}

// operatorCert is a certificate that the authority could have issued to an
// operator and that no record knows.
func (w *world) operatorCert(c client) tls.Certificate {
	w.t.Helper()
	cert, err := w.authority.IssueOperator(pki.OperatorRequest{
		PublicKey: c.key.Public().(ed25519.PublicKey), ID: c.peer.ID, Tenant: c.peer.Tenant,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return keyPair(cert, c.key)
}

// certOf is the certificate of a new operator or viewer.
func (w *world) certOf(tenant string, role identity.Role) tls.Certificate {
	w.t.Helper()
	key := newKey(w.t)
	_, cert, err := operatorauth.Enrol(w.ctx, w.store, w.authority, operatorauth.EnrolRequest{
		Tenant: tenant, Role: role, Key: key.Public().(ed25519.PublicKey),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return keyPair(cert, key)
}

// agentCert is a certificate that the authority could have issued to an agent
// and that no record knows.
func (w *world) agentCert(id identity.ID) tls.Certificate {
	w.t.Helper()
	key := newKey(w.t)
	cert, err := w.authority.IssueAgent(pki.AgentRequest{
		PublicKey: key.Public().(ed25519.PublicKey), ID: id, Tenant: "default", Shard: shardName,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return keyPair(cert, key)
}
