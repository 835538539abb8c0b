package rpc_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/operatorauth"
)

// ear hears every byte that leaves the server for one tenant: messages, headers,
// trailers and errors with their details.
type ear struct {
	mu    sync.Mutex
	heard bytes.Buffer
}

func (e *ear) note(what string, v any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	fmt.Fprintf(&e.heard, "\n%s: ", what)
	switch v := v.(type) {
	case proto.Message:
		data, _ := proto.Marshal(v)
		e.heard.Write(data)
	case error:
		data, _ := proto.Marshal(status.Convert(v).Proto())
		e.heard.Write(data)
	default:
		fmt.Fprint(&e.heard, v)
	}
}

func (e *ear) has(text string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return bytes.Contains(e.heard.Bytes(), []byte(text))
}

func (e *ear) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	var header, trailer metadata.MD
	err := call(ctx, method, req, reply, conn, append(opts, grpc.Header(&header), grpc.Trailer(&trailer))...)
	e.note(method, reply)
	e.note(method, fmt.Sprint(header, trailer))
	if err != nil {
		e.note(method, err)
	}
	return err
}

// listen follows a stream to its end.
func listen[T any](e *ear, stream grpc.ServerStreamingClient[T], err error) {
	for err == nil {
		var event *T
		if event, err = stream.Recv(); err == nil {
			e.note("event", any(event))
		}
	}
	if !errors.Is(err, context.Canceled) {
		e.note("end", err)
	}
}

// tenantMarks are what stands for a tenant wherever it shows: its group, a variable
// of that, and what the provider said about its machines.
type tenantMarks struct {
	name string
	ear  *ear
	api  nstancev1.OperatorServiceClient
	ids  []string // of its instances, the provider's too
}

func (m *tenantMarks) group() string { return "group-" + m.name }
func (m *tenantMarks) all() []string {
	return append([]string{m.group(), "variable-" + m.name, "complaint-" + m.name, "console-of-" + m.name}, m.ids...)
}

// enrolMarked connects an operator whose every answer is heard.
func (w *world) enrolMarked(name string) *tenantMarks {
	w.t.Helper()
	key, e := newKey(w.t), &ear{}
	_, cert, err := operatorauth.Enrol(w.ctx, w.store, w.authority, operatorauth.EnrolRequest{Tenant: name, Key: key.Public().(ed25519.PublicKey)})
	if err != nil {
		w.t.Fatal(err)
	}
	conn := w.dial(w.operator, credentials.NewTLS(w.clientTLS(keyPair(cert, key))), grpc.WithUnaryInterceptor(e.unary))
	return &tenantMarks{name: name, ear: e, api: nstancev1.NewOperatorServiceClient(conn)}
}

// follow opens every stream of the tenant.
func (m *tenantMarks) follow(ctx context.Context) {
	groups, err := m.api.WatchGroups(ctx, &emptypb.Empty{})
	go listen(m.ear, groups, err)
	instances, err := m.api.WatchInstances(ctx, &nstancev1.WatchInstancesRequest{})
	go listen(m.ear, instances, err)
	failures, err := m.api.WatchErrors(ctx, &emptypb.Empty{})
	go listen(m.ear, failures, err)
}

// live makes the tenant do everything with what is its own.
func (m *tenantMarks) live(ctx context.Context, t *testing.T) {
	t.Helper()
	template, size := "plain", int32(2)
	vars := &nstancev1.StringMap{Values: map[string]string{"mark": "variable-" + m.name}}
	for _, key := range []string{m.group(), "same"} {
		_, err := m.api.UpsertGroup(ctx, &nstancev1.UpsertGroupRequest{Key: key, Config: &nstancev1.GroupConfig{Template: &template, Size: &size, Vars: vars}})
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
	if _, err := m.api.CreateInstance(ctx, &nstancev1.CreateInstanceRequest{Config: &nstancev1.InstanceConfig{Group: m.group()}}); err != nil {
		t.Errorf("%s: %v", m.name, err)
	}
}

// ask makes every call that changes nothing, and some that are refused.
func (m *tenantMarks) ask(ctx context.Context) {
	_, _ = m.api.ListGroups(ctx, &emptypb.Empty{})
	_, _ = m.api.ListInstances(ctx, &nstancev1.ListInstancesRequest{})
	_, _ = m.api.ListInstances(ctx, &nstancev1.ListInstancesRequest{PageSize: 1, PageToken: "vmx"})
	_, _ = m.api.GetServerInfo(ctx, &emptypb.Empty{})
	_, _ = m.api.GetConfigStatus(ctx, &emptypb.Empty{})
	_, _ = m.api.RefreshConfig(ctx, &emptypb.Empty{})
	_, _ = m.api.ListHeldVMs(ctx, &emptypb.Empty{})
	_, _ = m.api.AdoptVM(ctx, &nstancev1.AdoptVMRequest{ProviderInstanceId: "vm-none"})
	for _, group := range []string{m.group(), "same", "unknown"} {
		_, _ = m.api.Explain(ctx, &nstancev1.ExplainRequest{Target: &nstancev1.ExplainRequest_Group{Group: group}})
		_, _ = m.api.SetPause(ctx, &nstancev1.SetPauseRequest{Scope: "group", Group: group, Reason: "variable-" + m.name})
	}
	_, _ = m.api.SetPause(ctx, &nstancev1.SetPauseRequest{Scope: "tenant", Reason: "variable-" + m.name})
	_, _ = m.api.ListGroups(ctx, &emptypb.Empty{})
	_, _ = m.api.ClearPause(ctx, &nstancev1.ClearPauseRequest{Scope: "tenant"})
	_, _ = m.api.ClearPause(ctx, &nstancev1.ClearPauseRequest{Scope: "group", Group: "same"})
	_, _ = m.api.PlanConfig(ctx, &nstancev1.PlanConfigRequest{Config: []byte("{")})
	_, _ = m.api.UpsertGroup(ctx, &nstancev1.UpsertGroupRequest{Key: "Not A Name"})
	_, _ = m.api.UpsertGroup(ctx, &nstancev1.UpsertGroupRequest{Key: "unknown"})
	_, _ = m.api.CreateInstance(ctx, &nstancev1.CreateInstanceRequest{Config: &nstancev1.InstanceConfig{Group: "unknown"}})
	_, _ = m.api.GetInstanceStatus(ctx, &nstancev1.GetInstanceStatusRequest{InstanceId: "x"})
}

// TestS12_MarkedTenants: three tenants live side by side, with a group of the same
// name each, and each byte that leaves for one is searched for the others' marks.
func TestS12_MarkedTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOptions{pipes: true})
		ctx, cancel := context.WithCancel(w.ctx)
		tenants := []*tenantMarks{w.enrolMarked("default"), w.enrolMarked("acme"), w.enrolMarked("zeta")}
		var complained sync.Map // tenants whose first create has failed
		w.cloud.SetFaults(func(c drivertest.Call) drivertest.Fault {
			if c.Op != drivertest.OpCreate {
				return drivertest.Fault{}
			}
			if _, before := complained.LoadOrStore(c.Request.Tenant, true); !before {
				return drivertest.Fault{Before: driver.Fail(driver.Quota, "create", errors.New("complaint-"+c.Request.Tenant))}
			}
			return drivertest.Fault{}
		})
		for _, m := range tenants {
			m.follow(ctx)
		}
		synctest.Wait()
		for _, m := range tenants {
			m.live(ctx, t)
		}
		time.Sleep(time.Minute)
		for _, vm := range w.cloud.Machines() {
			w.cloud.Write(vm.InstanceID, "[1.0] console-of-"+vm.Tenant+"\n")
			for _, m := range tenants {
				if m.name == vm.Tenant {
					m.ids = append(m.ids, vm.InstanceID.String(), vm.ProviderID)
				}
			}
		}
		for _, m := range tenants {
			m.ask(ctx)
			for _, id := range m.ids {
				_, _ = m.api.ReadInstanceOutput(ctx, &nstancev1.ReadInstanceOutputRequest{InstanceId: id})
			}
			_, _ = m.api.DeleteGroup(ctx, &nstancev1.DeleteGroupRequest{Key: "same"})
		}
		time.Sleep(time.Minute)
		cancel()
		synctest.Wait()
		for _, m := range tenants {
			for _, other := range tenants {
				for _, mark := range other.all() {
					switch heard := m.ear.has(mark); {
					case m == other && !heard:
						t.Errorf("%s did not hear its own %q: the test shows nothing", m.name, mark)
					case m != other && heard:
						t.Errorf("%s heard %q of %s", m.name, mark, other.name)
					}
				}
			}
		}
	})
}
