package rpc_test

import (
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc/codes"

	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
	"nstance.dev/server/layout"
)

// demanded is a world in which acme has a group of mode demand.
var demanded = worldOptions{groups: `{"default": {}, "acme": {"pool": {"template": "plain", "mode": "demand", "demand": {"max": 10}}}}`}

// session opens a session of demand mode and sends hello for a tenant.
func (c client) session(t *testing.T, tenant string) demandpb.ShardService_SessionClient {
	t.Helper()
	stream, err := demandpb.NewShardServiceClient(c.conn).Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hello := &demandpb.Hello{ClusterId: cluster, Tenant: tenant, ProtocolVersion: "v1alpha1"}
	if err := stream.Send(&demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_Hello{Hello: hello}}); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return stream
}

// wantEnd reads a session until it ends, and checks why.
func wantEnd(t *testing.T, stream demandpb.ShardService_SessionClient, code codes.Code, reason string) {
	t.Helper()
	for {
		if _, err := stream.Recv(); err != nil {
			wantCode(t, err, code, reason)
			return
		}
	}
}

// TestS13_WhoMayHaveASession: the operators of a tenant with demand groups on this shard, for that tenant, for as
// long as they are registered.
func TestS13_WhoMayHaveASession(t *testing.T) {
	w := newWorld(t, demanded)
	acme := w.operatorOf("acme")
	stream := acme.session(t, "acme")
	first, err := stream.Recv()
	if err != nil || first.GetAck().GetKind() != demandpb.Acknowledgement_KIND_HELLO || first.GetAck().GetShardEpoch() != 1 {
		t.Fatalf("hello is answered by %v, %v", first, err)
	}
	rollup := &demandpb.ClusterCapacityNeeds{ClusterId: cluster, Sequence: 1, Needs: []*demandpb.CapacityNeed{{
		AggregateResources:        []*demandpb.ResourceAmount{{Name: "cpu", Amount: 6000}},
		MinUnit:                   []*demandpb.ResourceAmount{{Name: "cpu", Amount: 1000}},
		InterruptionPenaltyBucket: demandpb.PenaltyBucket_PENALTY_BUCKET_ZERO, ReclamationPenaltyBucket: demandpb.PenaltyBucket_PENALTY_BUCKET_ZERO,
	}}}
	if err := stream.Send(&demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_Rollup{Rollup: rollup}}); err != nil {
		t.Fatal(err)
	}
	for accepted := false; !accepted; {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if a := m.GetAck(); a != nil {
			if accepted = a.GetKind() == demandpb.Acknowledgement_KIND_ROLLUP_ACCEPTED; !accepted {
				t.Fatalf("the roll-up is answered by %v", a)
			}
		}
	}

	wantEnd(t, w.operatorOf("b").session(t, "acme"), codes.PermissionDenied, "WRONG_IDENTITY")
	agent := w.reach(w.operator, w.agentCert("vmx068a3cp3thz5z2mv1gejwftabc"))
	wantEnd(t, client{conn: agent}.session(t, "acme"), codes.PermissionDenied, "WRONG_ROLE")

	w.remove(layout.OperatorKey("acme", acme.peer.ID))
	if err := w.registry.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantEnd(t, stream, codes.PermissionDenied, "UNKNOWN_OPERATOR")
}

// TestAShardWithoutADemandGroupSaysSo.
func TestAShardWithoutADemandGroupSaysSo(t *testing.T) {
	w := newWorld(t, worldOptions{})
	wantEnd(t, w.operatorOf("acme").session(t, "acme"), codes.FailedPrecondition, "NO_DEMAND_GROUP")
}
