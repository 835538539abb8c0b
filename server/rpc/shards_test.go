package rpc_test

import (
	"crypto/tls"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/bucket"
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

	first.remove(bucket.OperatorKey("b", identityOf(t, resp.ClientCertificatePem).ID))
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

// identityOf reads what a certificate says about its owner.
func identityOf(t *testing.T, pem []byte) identity.Peer {
	t.Helper()
	peer, err := identity.PeerFromCertificate(parse(t, pem))
	if err != nil {
		t.Fatal(err)
	}
	return peer
}
