package rpc_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/layout"
	"nstance.dev/server/operatorapi"
)

// reach connects to a listener with a certificate.
func (w *world) reach(l net.Listener, cert tls.Certificate) *grpc.ClientConn {
	return w.dial(l, credentials.NewTLS(w.clientTLS(cert)))
}

// connect opens an agent's stream and says hello.
func (w *world) connect(conn *grpc.ClientConn, id identity.ID) grpc.BidiStreamingClient[nstancev1.AgentMessage, nstancev1.ServerMessage] {
	w.t.Helper()
	stream, err := nstancev1.NewAgentServiceClient(conn).Connect(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	// An error shows when the answer is read.
	_ = stream.Send(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Hello{Hello: &nstancev1.Hello{InstanceId: id.String()}}})
	return stream
}

func TestAgentStream(t *testing.T) {
	w := newWorld(t, worldOptions{})
	id, conn := w.registered(w.operatorOf("default"))
	stream := w.connect(conn, id)
	msg, err := stream.Recv()
	if err != nil || msg.GetWelcome().GetShard() != shardName {
		t.Fatalf("first message is %v, %v", msg, err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if st := status.Convert(err); !strings.Contains(err.Error(), "EOF") {
		t.Errorf("a goodbye is answered with %v, want OK", st)
	}
}

func TestS11_ForeignHello(t *testing.T) {
	w := newWorld(t, worldOptions{})
	op := w.operatorOf("default")
	first, _ := w.registered(op)
	_, conn := w.registered(op)
	_, err := w.connect(conn, first).Recv()
	wantCode(t, err, codes.PermissionDenied, "FOREIGN_INSTANCE")
}

func TestStandby(t *testing.T) {
	w := newWorld(t, worldOptions{standby: true})
	op := w.operatorOf("default")
	agent := w.reach(w.agent, w.agentCert("vmx068a3cp3thz5z2mv1gejwftabc"))
	calls := map[string]func(grpc.CallOption) error{
		"leader:8992": func(o grpc.CallOption) error {
			_, err := w.anonymous().RegisterAgent(t.Context(), &nstancev1.RegisterClientRequest{}, o)
			return err
		},
		"leader:8993": func(o grpc.CallOption) error {
			_, err := op.ListGroups(t.Context(), &emptypb.Empty{}, o)
			return err
		},
		"leader:8994": func(o grpc.CallOption) error {
			stream, err := nstancev1.NewAgentServiceClient(agent).Connect(t.Context(), o)
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
	}
	for leader, call := range calls {
		var trailer metadata.MD
		err := call(grpc.Trailer(&trailer))
		wantCode(t, err, codes.Unavailable, "NOT_LEADER")
		if got := trailer.Get(identity.LeaderTrailer); len(got) != 1 || got[0] != leader {
			t.Errorf("the trailer names %q, want %q", got, leader)
		}
	}
}

func TestNotClusterLeader(t *testing.T) {
	w := newWorld(t, worldOptions{standby: true})
	op := w.operatorOf("default")
	_, err := op.RenewCertificate(t.Context(), &nstancev1.RenewCertificateRequest{})
	wantCode(t, err, codes.Unavailable, "NOT_LEADER")
	_, err = w.anonymous().RegisterOperator(t.Context(), request(t, w.operatorNonce("default"), newKey(t)))
	wantCode(t, err, codes.Unavailable, "NOT_LEADER")
}

func TestHealth(t *testing.T) {
	for _, standby := range []bool{true, false} {
		w := newWorld(t, worldOptions{standby: standby})
		want := healthv1.HealthCheckResponse_SERVING
		if standby {
			want = healthv1.HealthCheckResponse_NOT_SERVING
		}
		client := healthv1.NewHealthClient(w.operatorOf("default").conn)
		for _, service := range []string{"", nstancev1.OperatorService_ServiceDesc.ServiceName} {
			resp, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
			if err != nil || resp.Status != want {
				t.Errorf("standby %v: %q is %v, %v", standby, service, resp.GetStatus(), err)
			}
		}
		_, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "other"})
		wantCode(t, err, codes.NotFound, "")
	}
}

func TestOperatorRegistersAndRenews(t *testing.T) {
	w := newWorld(t, worldOptions{})
	key := newKey(t)
	token := w.operatorNonce("b")
	resp, err := w.anonymous().RegisterOperator(t.Context(), request(t, token, key))
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.anonymous().RegisterOperator(t.Context(), request(t, token, newKey(t)))
	wantCode(t, err, codes.AlreadyExists, "ALREADY_REGISTERED")

	op := nstancev1.NewOperatorServiceClient(w.reach(w.operator, tls.Certificate{
		Certificate: [][]byte{parse(t, resp.ClientCertificatePem).Raw}, PrivateKey: key,
	}))
	fresh := newKey(t)
	renewed, err := op.RenewCertificate(t.Context(), &nstancev1.RenewCertificateRequest{PublicKeyPem: request(t, "", fresh).PublicKeyPem})
	if err != nil {
		t.Fatal(err)
	}
	op = nstancev1.NewOperatorServiceClient(w.reach(w.operator, tls.Certificate{
		Certificate: [][]byte{parse(t, renewed.ClientCertificatePem).Raw}, PrivateKey: fresh,
	}))
	info, err := op.GetServerInfo(t.Context(), &emptypb.Empty{})
	if err != nil || info.ClusterId != cluster || info.Shard != shardName || info.Term != 1 || len(info.Features) == 0 || info.ConfigDigest == "" {
		t.Errorf("with the renewed certificate: %v, %v", info, err)
	}
}

// What belongs to another tenant answers as what does not exist does, byte for
// byte but for the name that was asked for.
func TestS12_F46_ForeignTenant(t *testing.T) {
	w := newWorld(t, worldOptions{})
	a, b := w.operatorOf("default"), w.operatorOf("b")
	theirs := w.machine(b).InstanceID
	unknown := identity.ID("vmx068a3cp3thz5z2mv1gejwftabc")

	asks := map[string]func(identity.ID) (any, error){
		"status": func(id identity.ID) (any, error) {
			return a.GetInstanceStatus(t.Context(), &nstancev1.GetInstanceStatusRequest{InstanceId: id.String()})
		},
		"delete": func(id identity.ID) (any, error) {
			return a.DeleteInstance(t.Context(), &nstancev1.DeleteInstanceRequest{InstanceId: id.String()})
		},
		"drained": func(id identity.ID) (any, error) {
			return a.AcknowledgeDrained(t.Context(), &nstancev1.AcknowledgeDrainedRequest{InstanceId: id.String()})
		},
	}
	for name, ask := range asks {
		answer := func(id identity.ID) string {
			resp, err := ask(id)
			return strings.ReplaceAll(fmt.Sprintf("%v %v %s", resp, err, reasonOf(status.Convert(err))), id.String(), "ID")
		}
		if foreign, missing := answer(theirs), answer(unknown); foreign != missing {
			t.Errorf("%s: a foreign instance answers %q, a missing one %q", name, foreign, missing)
		}
	}
	groups, err := a.ListGroups(t.Context(), &emptypb.Empty{})
	if err != nil || len(groups.Groups) != 0 {
		t.Errorf("groups of the tenant: %v, %v", groups, err)
	}
	list, err := a.ListInstances(t.Context(), &nstancev1.ListInstancesRequest{})
	if err != nil || len(list.Instances) != 0 || !list.Complete {
		t.Errorf("instances of the tenant: %v, %v", list, err)
	}
	mine, err := b.ListInstances(t.Context(), &nstancev1.ListInstancesRequest{})
	if err != nil || len(mine.Instances) != 1 || mine.Instances[0].InstanceId != theirs.String() || mine.Instances[0].Status == "terminated" {
		t.Errorf("instances of the other tenant: %v, %v", mine, err)
	}
}

func TestErrorsCarryReasons(t *testing.T) {
	w := newWorld(t, worldOptions{})
	op := w.operatorOf("default")
	_, err := op.UpsertGroup(t.Context(), &nstancev1.UpsertGroupRequest{Key: "No!"})
	wantCode(t, err, codes.InvalidArgument, "INVALID_KEY")
	_, err = op.WakeTenant(t.Context(), &nstancev1.WakeTenantRequest{Tenant: "default"})
	wantCode(t, err, codes.Unimplemented, "NOT_OFFERED")
	_, err = op.ListInstances(t.Context(), &nstancev1.ListInstancesRequest{PageSize: -1})
	wantCode(t, err, codes.InvalidArgument, "INVALID_FIELD")
	w.store.Down(true)
	template := "plain"
	_, err = op.UpsertGroup(t.Context(), &nstancev1.UpsertGroupRequest{Key: "web", Config: &nstancev1.GroupConfig{Template: &template}})
	wantCode(t, err, codes.Unavailable, "STORAGE_UNAVAILABLE")
	if strings.Contains(err.Error(), "groups/") {
		t.Errorf("an inner error left the server: %v", err)
	}
	w.store.Down(false)
}

func TestManagerInMetadata(t *testing.T) {
	w := newWorld(t, worldOptions{})
	op := w.operatorOf("default")
	template := "plain"
	req := func() *nstancev1.UpsertGroupRequest {
		return &nstancev1.UpsertGroupRequest{Key: "web", Config: &nstancev1.GroupConfig{Template: &template}}
	}
	as := func(manager string) context.Context {
		return metadata.AppendToOutgoingContext(t.Context(), operatorapi.ManagerMetadata, manager)
	}
	if st, err := op.UpsertGroup(as("one"), req()); err != nil || st.Manager != "one" {
		t.Fatalf("group is %v, %v", st, err)
	}
	_, err := op.UpsertGroup(as("two"), req())
	wantCode(t, err, codes.FailedPrecondition, "MANAGED_BY_OTHER")
}

func TestConfigCalls(t *testing.T) {
	w := newWorld(t, worldOptions{})
	admin, tenant := w.operatorOf("default"), w.operatorOf("b")
	st, err := admin.GetConfigStatus(t.Context(), &emptypb.Empty{})
	if err != nil || st.Etag != "etag-1" || st.Size != 4711 {
		t.Errorf("status is %v, %v", st, err)
	}
	if st.RejectedEtag != "rejected" || st.RejectedReason != "why" {
		t.Errorf("an administrator's status is %v", st)
	}
	own, err := tenant.GetConfigStatus(t.Context(), &emptypb.Empty{})
	if err != nil || own.Etag == "" || own.Etag == "etag-1" || own.Size != 0 || own.LastModified != nil || own.RejectedEtag != "" || own.RejectedReason != "" {
		t.Errorf("S12: a tenant is told %v, %v", own, err)
	}
	resp, err := tenant.RefreshConfig(t.Context(), &emptypb.Empty{})
	if err != nil || resp.Updated || resp.PrevEtag != own.Etag || resp.Etag != own.Etag {
		t.Errorf("S12: a tenant refreshed: %v, %v", resp, err)
	}
	resp, err = admin.RefreshConfig(t.Context(), &emptypb.Empty{})
	if err != nil || !resp.Updated || resp.PrevEtag != "etag-1" || resp.Etag != "etag-2" {
		t.Errorf("refresh is %v, %v", resp, err)
	}

	w.refresher.fail(fmt.Errorf("load: %w", jsonc.Problems{
		{Path: "groups.b.web.size", Message: "own problem"},
		{Path: "groups.default.web.size", Message: "marked secret"},
	}))
	_, err = admin.RefreshConfig(t.Context(), &emptypb.Empty{})
	wantCode(t, err, codes.InvalidArgument, "INVALID_CONFIG")
	if !strings.Contains(err.Error(), "marked secret") || !strings.Contains(err.Error(), "own problem") {
		t.Errorf("an administrator is told %v", err)
	}
	if resp, err := tenant.RefreshConfig(t.Context(), &emptypb.Empty{}); err != nil || resp.Updated {
		t.Errorf("S12: a tenant is told %v, %v", resp, err)
	}
	w.refresher.fail(errors.New("marked secret"))
	_, err = admin.RefreshConfig(t.Context(), &emptypb.Empty{})
	wantCode(t, err, codes.Unavailable, "STORAGE_UNAVAILABLE")
	if strings.Contains(err.Error(), "marked secret") {
		t.Errorf("an inner error left the server: %v", err)
	}
}

func TestHeldVMsAreForAdministrators(t *testing.T) {
	w := newWorld(t, worldOptions{})
	if _, err := w.operatorOf("default").ListHeldVMs(t.Context(), &emptypb.Empty{}); err != nil {
		t.Error(err)
	}
	_, err := w.operatorOf("b").ListHeldVMs(t.Context(), &emptypb.Empty{})
	wantCode(t, err, codes.PermissionDenied, "NOT_ADMINISTRATOR")
}

func TestWatch(t *testing.T) {
	w := newWorld(t, worldOptions{})
	a, b := w.operatorOf("default"), w.operatorOf("b")
	groups, err := a.WatchGroups(t.Context(), &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	instances, err := a.WatchInstances(t.Context(), &nstancev1.WatchInstancesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if ev, err := instances.Recv(); err != nil || ev.Status != "snapshot_end" {
		t.Fatalf("first event is %v, %v", ev, err)
	}
	w.machine(b) // not to be seen
	mine := w.machine(a).InstanceID
	if ev, err := groups.Recv(); err != nil || ev.Group.Tenant != "default" || ev.Group.Key != "web" {
		t.Errorf("group event is %v, %v", ev, err)
	}
	if ev, err := instances.Recv(); err != nil || ev.InstanceId != mine.String() {
		t.Errorf("instance event is %v, %v; want one of %s", ev, err, mine)
	}
}

// TestS20_CoordinatorIsKnownByItsWatch: from the first watch that says so on, and for
// its own tenant alone.
func TestS20_CoordinatorIsKnownByItsWatch(t *testing.T) {
	w := newWorld(t, worldOptions{})
	a, b := w.operatorOf("default"), w.operatorOf("b")
	for _, c := range []struct {
		of          client
		coordinates bool
	}{{a, true}, {b, false}} {
		stream, err := c.of.WatchInstances(t.Context(), &nstancev1.WatchInstancesRequest{CoordinatesDrains: c.coordinates})
		if err != nil {
			t.Fatal(err)
		}
		if ev, err := stream.Recv(); err != nil || ev.Status != "snapshot_end" {
			t.Fatalf("first event is %v, %v", ev, err)
		}
	}
	if !w.registry.Coordinated("default") || w.registry.Coordinated("b") {
		t.Errorf("coordinated are default %v and b %v, want default alone", w.registry.Coordinated("default"), w.registry.Coordinated("b"))
	}
}

func TestS13_DeletedOperatorIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOptions{pipes: true})
		op := w.operatorOf("b")
		stream, err := op.WatchInstances(t.Context(), &nstancev1.WatchInstancesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		w.remove(layout.OperatorKey("b", op.peer.ID))
		if err := w.registry.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err = stream.Recv()
		wantCode(t, err, codes.PermissionDenied, "UNKNOWN_OPERATOR")
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("the stream ended after %v", took)
		}
		_, err = op.ListGroups(t.Context(), &emptypb.Empty{})
		wantCode(t, err, codes.PermissionDenied, "UNKNOWN_OPERATOR")
	})
}

func TestStreamsEndWithTheirCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOptions{pipes: true})
		op := w.operatorFor("default", time.Minute)
		stream, err := op.WatchErrors(t.Context(), &emptypb.Empty{})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err = stream.Recv()
		wantCode(t, err, codes.Unauthenticated, "CERTIFICATE_EXPIRED")
		if took := time.Since(start); took > 61*time.Second {
			t.Errorf("the stream ended after %v", took)
		}
		_, err = op.ListGroups(t.Context(), &emptypb.Empty{})
		wantCode(t, err, codes.Unauthenticated, "CERTIFICATE_EXPIRED")
	})
}

// remove deletes an object as somebody with access to the bucket would.
func (w *world) remove(key string) {
	w.t.Helper()
	obj, err := w.store.Get(w.ctx, key)
	if err == nil {
		err = w.store.DeleteIfMatch(w.ctx, key, obj.ETag)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestS12_WhoMayConfirmGroups(t *testing.T) {
	w := newWorld(t, worldOptions{})
	mine, theirs := w.operatorOf("default"), w.operatorOf("b")
	other, own := "default", "b"
	if _, err := theirs.ConfirmGroups(w.ctx, &nstancev1.ConfirmGroupsRequest{Tenant: &other}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("another tenant's groups: %v, want PermissionDenied", err)
	}
	for _, api := range []client{mine, theirs} {
		if got, err := api.ConfirmGroups(w.ctx, &nstancev1.ConfirmGroupsRequest{Tenant: &own}); err != nil || len(got.Confirmed) > 0 {
			t.Errorf("by an administrator, or for oneself: %v, %v", got, err)
		}
	}
	if _, err := theirs.ConfirmGroups(w.ctx, &nstancev1.ConfirmGroupsRequest{Keys: []string{"none"}}); status.Code(err) != codes.NotFound {
		t.Errorf("an unknown group: %v, want NotFound", err)
	}
}
