package processes_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/e2e/env/box"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// twoTenants brings up a cluster in which tenant default has the group web and
// tenant acme has the group api, and returns a client for acme.
func twoTenants(t *testing.T) (*box.Box, nstancev1.OperatorServiceClient) {
	t.Helper()
	b, _ := up(t, 2)
	text := strings.Replace(b.Config(), `"templates": {`, `"tenants": { "acme": {} }, "templates": {`, 1)
	text = strings.Replace(text, `"server": {`, `"server": { "admin_tenants": ["default"],`, 1)
	text = strings.Replace(text, `"groups": {`, `"groups": { "acme": { "api": { "template": "dev", "size": 1 } },`, 1)
	b.SetConfig(text)
	b.AdminOK("config", "refresh")
	b.Cluster("register-operator", "--tenant", "acme", "--output-dir", b.Path("acme"))
	client, err := b.Operator(mustLead(t, b).Operator, b.Path("acme"))
	if err != nil {
		t.Fatal(err)
	}
	b.Await("the other tenant's machine runs", func() error {
		list, err := listInstances(t, client)
		if err != nil || len(list) != 1 || list[0].Status != "running" {
			return fmt.Errorf("%v (%w)", list, err)
		}
		return nil
	})
	return b, client
}

func listInstances(t *testing.T, client nstancev1.OperatorServiceClient) ([]*nstancev1.InstanceStatus, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), box.CallTimeout)
	defer cancel()
	r, err := client.ListInstances(ctx, &nstancev1.ListInstancesRequest{PageSize: 100})
	return r.GetInstances(), err
}

func TestS12_TenantSeesItsOwnOnly(t *testing.T) {
	t.Parallel()
	b, acme := twoTenants(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()

	groups, err := acme.ListGroups(ctx, &emptypb.Empty{})
	if err != nil || len(groups.Groups) != 1 || groups.Groups[0].Key != "api" || groups.Groups[0].Tenant != "acme" {
		t.Errorf("groups of acme: %v (%v)", groups, err)
	}
	instances, err := listInstances(t, acme)
	if err != nil || len(instances) != 1 || instances[0].Tenant != "acme" {
		t.Errorf("instances of acme: %v (%v)", instances, err)
	}
	others, err := b.Instances()
	if err != nil || len(others) != 2 || slices.ContainsFunc(others, func(i *nstancev1.InstanceStatus) bool { return i.Tenant != "default" }) {
		t.Errorf("instances of default: %v (%v)", others, err)
	}
}

// What belongs to another tenant answers exactly as what does not exist, and stays
// as it is.
func TestF46_ForeignIsAnsweredLikeUnknown(t *testing.T) {
	t.Parallel()
	b, acme := twoTenants(t)
	foreign, err := b.Instances()
	if err != nil || len(foreign) == 0 {
		t.Fatalf("instances of default: %v (%v)", foreign, err)
	}
	unknown, err := identity.NewID("dev")
	if err != nil {
		t.Fatal(err)
	}
	before := b.Machines()

	ids := [2]string{foreign[0].InstanceId, string(unknown)}
	names := [2]string{"web", "nothing"}
	zero := int32(0)
	for _, c := range []struct {
		what string
		args [2]string
		code codes.Code
		call func(ctx context.Context, name string) (fmt.Stringer, error)
	}{
		{"GetInstanceStatus", ids, codes.NotFound, func(ctx context.Context, id string) (fmt.Stringer, error) {
			return acme.GetInstanceStatus(ctx, &nstancev1.GetInstanceStatusRequest{InstanceId: id})
		}},
		{"DeleteInstance", ids, codes.OK, func(ctx context.Context, id string) (fmt.Stringer, error) {
			return acme.DeleteInstance(ctx, &nstancev1.DeleteInstanceRequest{InstanceId: id, SkipDrain: true})
		}},
		{"AcknowledgeDrained", ids, codes.OK, func(ctx context.Context, id string) (fmt.Stringer, error) {
			return acme.AcknowledgeDrained(ctx, &nstancev1.AcknowledgeDrainedRequest{InstanceId: id})
		}},
		{"CreateInstance", names, codes.NotFound, func(ctx context.Context, group string) (fmt.Stringer, error) {
			return acme.CreateInstance(ctx, &nstancev1.CreateInstanceRequest{Config: &nstancev1.InstanceConfig{Group: group}})
		}},
		{"UpsertGroup", names, codes.InvalidArgument, func(ctx context.Context, group string) (fmt.Stringer, error) {
			return acme.UpsertGroup(ctx, &nstancev1.UpsertGroupRequest{Key: group, Config: &nstancev1.GroupConfig{Size: &zero}})
		}},
		{"DeleteGroup", names, codes.OK, func(ctx context.Context, group string) (fmt.Stringer, error) {
			return acme.DeleteGroup(ctx, &nstancev1.DeleteGroupRequest{Key: group})
		}},
	} {
		var answers [2]string
		for i, name := range c.args {
			ctx, cancel := context.WithTimeout(t.Context(), box.CallTimeout)
			answer, err := c.call(ctx, name)
			cancel()
			if code := status.Code(err); code != c.code {
				t.Errorf("%s of %s: %s (%v), and must be %s", c.what, name, code, err, c.code)
			}
			answers[i] = strings.ReplaceAll(fmt.Sprintf("%v %s %v", answer, reasonOf(err), err), name, "NAME")
		}
		if answers[0] != answers[1] {
			t.Errorf("%s answers what is another tenant's with\n%s\nand what does not exist with\n%s", c.what, answers[0], answers[1])
		}
	}
	b.Audited(1)
	if now := b.Machines(); !slices.Equal(now, before) {
		t.Errorf("machines are %v, were %v", now, before)
	}
}

// Nothing that the command line prints for one tenant has a trace of another.
func TestS12_CommandLineShowsNothingOfOthers(t *testing.T) {
	t.Parallel()
	b, _ := twoTenants(t)
	context := b.Path("acme.json")
	text := fmt.Sprintf(`{"tenant": "acme", "identity_dir": "acme", "shard": %q, "servers": {%q: %q}}`,
		box.Shard, box.Shard, mustLead(t, b).Operator)
	if err := os.WriteFile(context, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign, err := b.Instances()
	if err != nil {
		t.Fatal(err)
	}
	marks := []string{"default"}
	for _, in := range foreign {
		marks = append(marks, in.InstanceId, in.ProviderInstanceId)
	}
	for _, args := range [][]string{
		{"group", "list", "-o", "json"}, {"group", "list", "-o", "wide"}, {"group", "get", "api", "-o", "yaml"}, {"group", "get", "nothing"},
		{"instance", "list", "-o", "json"}, {"instance", "list", "-o", "wide"}, {"instance", "list", "--unmanaged"}, {"instance", "adopt", "nothing"},
		{"config", "status"}, {"config", "refresh"}, {"__complete", "group", "get", ""}, {"__complete", "instance", "get", ""},
	} {
		r := b.Admin(append(args, "--debug", "--context", context)...)
		if args[0] == "__complete" {
			r = b.Admin(slices.Insert(slices.Clone(args), 3, "--context", context)...)
		}
		for _, mark := range marks {
			if strings.Contains(r.Out+r.Err, mark) {
				t.Errorf("nstance-admin %v shows %q to another tenant:\n%s%s", args, mark, r.Out, r.Err)
			}
		}
	}
}
