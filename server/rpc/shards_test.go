package rpc_test

import (
	"crypto/tls"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/layout"
)

// TestTwoShardsOneCluster: two shards share a bucket and so an authority. An operator
// that registers at the first is one at the second, with its tenant's groups there and
// no others, and revoking it counts at both.
func TestTwoShardsOneCluster(t *testing.T) {
	first := newWorld(t, worldOptions{})
	second := newWorld(t, worldOptions{beside: first})
	key := newKey(t)
	resp, err := first.anonymous().RegisterOperator(t.Context(), request(t, first.operatorNonce("b"), key))
	if err != nil {
		t.Fatal(err)
	}
	cert := tls.Certificate{Certificate: [][]byte{parse(t, resp.ClientCertificatePem).Raw}, PrivateKey: key}
	here := nstancev1.NewOperatorServiceClient(first.reach(first.operator, cert))
	there := nstancev1.NewOperatorServiceClient(second.reach(second.operator, cert))

	template, size := "plain", int32(0)
	for _, api := range []nstancev1.OperatorServiceClient{here, there} {
		if _, err := api.UpsertGroup(t.Context(), &nstancev1.UpsertGroupRequest{Key: "web", Config: &nstancev1.GroupConfig{Template: &template, Size: &size}}); err != nil {
			t.Fatal(err)
		}
		if groups, err := api.ListGroups(t.Context(), &emptypb.Empty{}); err != nil || len(groups.Groups) != 1 || groups.Groups[0].Tenant != "b" {
			t.Errorf("groups: %v, %v, want the one of this shard", groups, err)
		}
	}
	for api, name := range map[nstancev1.OperatorServiceClient]string{here: shardName, there: "s2"} {
		if info, err := api.GetServerInfo(t.Context(), &emptypb.Empty{}); err != nil || info.Shard != name || info.ClusterId != cluster {
			t.Errorf("server of %s says %v, %v", name, info, err)
		}
	}

	first.remove(layout.OperatorKey("b", identityOf(t, resp.ClientCertificatePem).ID))
	for _, w := range []*world{first, second} {
		if err := w.registry.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, api := range []nstancev1.OperatorServiceClient{here, there} {
		_, err := api.ListGroups(t.Context(), &emptypb.Empty{})
		wantCode(t, err, codes.PermissionDenied, "UNKNOWN_OPERATOR")
	}
}

// Each shard has tenants of its own, and a server of any of them may lead the cluster: an
// operator registers and renews there all the same, and each shard says for itself
// whether it knows the tenant.
func TestTenantsOfOtherShardsRegisterAndRenew(t *testing.T) {
	leading := newWorld(t, worldOptions{tenants: `{"acme": {}}`, open: `["acme"]`})
	other := newWorld(t, worldOptions{beside: leading, tenants: `{"b": {}}`, open: `["b"]`})
	key := newKey(t)
	resp, err := leading.anonymous().RegisterOperator(t.Context(), request(t, leading.operatorNonce("b"), key))
	if err != nil {
		t.Fatal(err)
	}
	cert := tls.Certificate{Certificate: [][]byte{parse(t, resp.ClientCertificatePem).Raw}, PrivateKey: key}
	there := nstancev1.NewOperatorServiceClient(leading.reach(leading.operator, cert))
	home := nstancev1.NewOperatorServiceClient(other.reach(other.operator, cert))

	if _, err := home.ListGroups(t.Context(), &emptypb.Empty{}); err != nil {
		t.Errorf("its own shard: %v", err)
	}
	_, err = there.ListGroups(t.Context(), &emptypb.Empty{})
	wantCode(t, err, codes.PermissionDenied, "UNKNOWN_TENANT")
	renewed, err := there.RenewCertificate(t.Context(), &nstancev1.RenewCertificateRequest{PublicKeyPem: request(t, "", key).PublicKeyPem})
	if err != nil {
		t.Fatalf("renewal: %v", err)
	}
	if who := identityOf(t, renewed.ClientCertificatePem); who.Tenant != "b" {
		t.Errorf("renewed for tenant %q", who.Tenant)
	}

	_, err = leading.anonymous().RegisterOperator(t.Context(), request(t, leading.operatorNonce("nobody"), newKey(t)))
	wantCode(t, err, codes.PermissionDenied, "REGISTRATION_REFUSED")
	if _, err := leading.store.PutIfAbsent(t.Context(), layout.ConfigKey("s3"), []byte(`{ "tenants": [`)); err != nil {
		t.Fatal(err)
	}
	_, err = leading.anonymous().RegisterOperator(t.Context(), request(t, leading.operatorNonce("nobody"), newKey(t)))
	wantCode(t, err, codes.Unavailable, "STORAGE_UNAVAILABLE")
}

// identityOf reads what a certificate says about its owner.
func identityOf(t *testing.T, pem []byte) identity.Peer {
	t.Helper()
	peer, err := identity.PeerFromCertificate(parse(t, pem))
	if err != nil {
		t.Fatal(err)
	}
	return peer
}
