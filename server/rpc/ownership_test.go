package rpc_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

func groupOf(key, template string, size int32) *nstancev1.UpsertGroupRequest {
	return &nstancev1.UpsertGroupRequest{Key: key, Config: &nstancev1.GroupConfig{Template: &template, Size: &size}}
}

// A template that another tenant uses brings its secrets and certificates: a call that
// names it is answered like one that names nothing.
func TestS12_TemplateOfAnotherTenantDoesNotExist(t *testing.T) {
	w := newWorld(t, worldOptions{})
	tenant, admin := w.operatorOf("b"), w.operatorOf("default")
	_, theirs := tenant.UpsertGroup(t.Context(), groupOf("thief", "ours", 1))
	wantCode(t, theirs, codes.InvalidArgument, "INVALID_GROUP")
	_, nobodys := tenant.UpsertGroup(t.Context(), groupOf("thief", "0urs", 1))
	if got, want := strings.ReplaceAll(theirs.Error(), "ours", "0urs"), nobodys.Error(); got != want {
		t.Errorf("%q differs from %q", theirs, nobodys)
	}
	if _, err := tenant.UpsertGroup(t.Context(), groupOf("mine", "plain", 0)); err != nil {
		t.Fatal(err)
	}
	_, err := tenant.CreateInstance(t.Context(), &nstancev1.CreateInstanceRequest{Config: &nstancev1.InstanceConfig{Group: "mine", Template: new("ours")}})
	wantCode(t, err, codes.InvalidArgument, "INVALID_GROUP")
	if _, err := admin.UpsertGroup(t.Context(), groupOf("fine", "ours", 1)); err != nil {
		t.Error(err)
	}
}

// Tenant b may have twelve machines in this world.
func TestS12_QuotaOfMachines(t *testing.T) {
	w := newWorld(t, worldOptions{})
	tenant := w.operatorOf("b")
	if _, err := tenant.UpsertGroup(t.Context(), groupOf("one", "plain", 8)); err != nil {
		t.Fatal(err)
	}
	_, err := tenant.UpsertGroup(t.Context(), groupOf("two", "plain", 5))
	wantCode(t, err, codes.ResourceExhausted, "QUOTA_EXCEEDED")
	if _, err := tenant.UpsertGroup(t.Context(), groupOf("two", "plain", 0)); err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	made := make(chan struct{}, 20)
	for range 20 { // a burst does not pass what one call keeps
		calls.Go(func() {
			_, err := tenant.CreateInstance(t.Context(), &nstancev1.CreateInstanceRequest{Config: &nstancev1.InstanceConfig{Group: "two"}})
			switch status.Code(err) {
			case codes.OK:
				made <- struct{}{}
			case codes.ResourceExhausted:
			default:
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if n := len(made); n != 4 {
		t.Errorf("%d instances made beside 8 wanted ones, with a quota of 12", n)
	}
	_, err = tenant.UpsertGroup(t.Context(), groupOf("one", "plain", 9))
	wantCode(t, err, codes.ResourceExhausted, "QUOTA_EXCEEDED")
	if _, err := tenant.UpsertGroup(t.Context(), groupOf("one", "plain", 7)); err != nil {
		t.Errorf("less than before: %v", err)
	}
	if _, err := w.operatorOf("acme").UpsertGroup(t.Context(), groupOf("one", "plain", 40)); err != nil {
		t.Errorf("another tenant: %v", err)
	}
}

// What one tenant does is not counted in the revisions of another.
func TestS12_RevisionsTellNothingOfOthers(t *testing.T) {
	w := newWorld(t, worldOptions{})
	tenant, other := w.operatorOf("b"), w.operatorOf("acme")
	upsert := func(size int32) int64 {
		t.Helper()
		st, err := tenant.UpsertGroup(t.Context(), groupOf("web", "plain", size))
		if err != nil {
			t.Fatal(err)
		}
		return st.Revision
	}
	upsert(0)
	first := upsert(0)
	step := upsert(0) - first
	before := upsert(0)
	for i := range int32(10) {
		if _, err := other.UpsertGroup(t.Context(), groupOf(fmt.Sprint("g", i), "plain", 0)); err != nil {
			t.Fatal(err)
		}
		_, _ = other.ListGroups(t.Context(), &emptypb.Empty{})
	}
	if got := upsert(0) - before; got != step {
		t.Errorf("the revision grew by %d, not %d, while another tenant was busy", got, step)
	}
}

// An id that another tenant uses is answered like one that is too old.
func TestS12_IDOfAnotherTenantIsNotTold(t *testing.T) {
	w := newWorld(t, worldOptions{})
	tenant, other := w.operatorOf("b"), w.operatorOf("acme")
	for _, op := range []nstancev1.OperatorServiceClient{tenant, other} {
		if _, err := op.UpsertGroup(t.Context(), groupOf("web", "plain", 0)); err != nil {
			t.Fatal(err)
		}
	}
	create := func(op nstancev1.OperatorServiceClient, id string) (*nstancev1.CreateInstanceResponse, error) {
		return op.CreateInstance(t.Context(), &nstancev1.CreateInstanceRequest{InstanceId: &id, Config: &nstancev1.InstanceConfig{Group: "web"}})
	}
	made, err := other.CreateInstance(t.Context(), &nstancev1.CreateInstanceRequest{Config: &nstancev1.InstanceConfig{Group: "web"}})
	if err != nil {
		t.Fatal(err)
	}
	_, taken := create(tenant, made.InstanceId)
	_, old := create(tenant, "vmx068a3cp3thz5z2mv1gejwftabc")
	wantCode(t, taken, codes.InvalidArgument, "INVALID_ID")
	if taken.Error() != old.Error() {
		t.Errorf("%q is told apart from %q", taken, old)
	}
	if again, err := create(other, made.InstanceId); err != nil || again.InstanceId != made.InstanceId {
		t.Errorf("a repeat of one's own: %v, %v", again, err)
	}
}
