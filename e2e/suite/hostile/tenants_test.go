package hostile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// The tenants of these rows: the attacker is an operator of zeta, who wants what acme and
// the administrating tenant have.
const (
	attacker = "zeta"
	victim   = "acme"
	admin    = identity.DefaultTenant
)

// alikeAnswers is what a call comes to that answers for what another tenant has as for what
// nobody ever had.
const alikeAnswers = "answers are alike"

// reason is code and reason of an answer, without its text.
func reason(err error) string {
	text, _, _ := strings.Cut(said(err), ":")
	return text
}

// tenancy are attempts of one tenant on another. They are made in order: the last ones look
// whether the others did harm.
func tenancy() []attempt {
	return slices.Concat(foreignCalls(), groupKeys(), instanceIDs(), administration(), listings(), watches(), timing(), abuse(), quotas(), unharmed())
}

// probe is a call about one name.
type probe struct {
	name string
	call func(ctx context.Context, c nstancev1.OperatorServiceClient, name string) (fmt.Stringer, error)
}

var callsByID = []probe{
	{"GetInstanceStatus", func(ctx context.Context, c nstancev1.OperatorServiceClient, id string) (fmt.Stringer, error) {
		return c.GetInstanceStatus(ctx, &nstancev1.GetInstanceStatusRequest{InstanceId: id})
	}},
	{"DeleteInstance", func(ctx context.Context, c nstancev1.OperatorServiceClient, id string) (fmt.Stringer, error) {
		return c.DeleteInstance(ctx, &nstancev1.DeleteInstanceRequest{InstanceId: id, SkipDrain: true})
	}},
	{"DeleteInstance, with a smaller group", func(ctx context.Context, c nstancev1.OperatorServiceClient, id string) (fmt.Stringer, error) {
		return c.DeleteInstance(ctx, &nstancev1.DeleteInstanceRequest{InstanceId: id, SkipDrain: true, DecrementSize: true})
	}},
	{"DeleteInstance, after a replacement", func(ctx context.Context, c nstancev1.OperatorServiceClient, id string) (fmt.Stringer, error) {
		return c.DeleteInstance(ctx, &nstancev1.DeleteInstanceRequest{InstanceId: id, SkipDrain: true, ReplaceFirst: true})
	}},
	{"AcknowledgeDrained", func(ctx context.Context, c nstancev1.OperatorServiceClient, id string) (fmt.Stringer, error) {
		return c.AcknowledgeDrained(ctx, &nstancev1.AcknowledgeDrainedRequest{InstanceId: id, Forced: true})
	}},
	{"ReadInstanceOutput", func(ctx context.Context, c nstancev1.OperatorServiceClient, id string) (fmt.Stringer, error) {
		return c.ReadInstanceOutput(ctx, &nstancev1.ReadInstanceOutputRequest{InstanceId: id})
	}},
	{"Explain of an instance", func(ctx context.Context, c nstancev1.OperatorServiceClient, id string) (fmt.Stringer, error) {
		return c.Explain(ctx, &nstancev1.ExplainRequest{Target: &nstancev1.ExplainRequest_InstanceId{InstanceId: id}})
	}},
}

var callsByGroup = []probe{
	{"UpsertGroup", func(ctx context.Context, c nstancev1.OperatorServiceClient, key string) (fmt.Stringer, error) {
		return c.UpsertGroup(ctx, &nstancev1.UpsertGroupRequest{Key: key, Config: &nstancev1.GroupConfig{Size: new(int32)}})
	}},
	{"DeleteGroup", func(ctx context.Context, c nstancev1.OperatorServiceClient, key string) (fmt.Stringer, error) {
		return c.DeleteGroup(ctx, &nstancev1.DeleteGroupRequest{Key: key, Takeover: true})
	}},
	{"CreateInstance", func(ctx context.Context, c nstancev1.OperatorServiceClient, key string) (fmt.Stringer, error) {
		return c.CreateInstance(ctx, &nstancev1.CreateInstanceRequest{Config: &nstancev1.InstanceConfig{Group: key}, Takeover: true})
	}},
	{"Explain of a group", func(ctx context.Context, c nstancev1.OperatorServiceClient, key string) (fmt.Stringer, error) {
		return c.Explain(ctx, &nstancev1.ExplainRequest{Target: &nstancev1.ExplainRequest_Group{Group: key}})
	}},
}

// foreignCalls ask for what another tenant has and for what never was, with every call that
// takes a name.
func foreignCalls() (rows []attempt) {
	for _, p := range callsByID {
		rows = append(rows, attempt{"F46", p.name + " by the id of another tenant", alikeAnswers, func(t *testing.T, w *world) string {
			return w.compare(t, p, w.foreign(t), newID(t, "mut"))
		}})
	}
	for _, p := range callsByGroup {
		rows = append(rows, attempt{"F46", p.name + " by the key of another tenant", alikeAnswers, func(t *testing.T, w *world) string {
			return w.compare(t, p, "web", "wob") // web is the administrating tenant's
		}})
	}
	return append(rows, attempt{"S12", "an id of another tenant is told from one that is too old", alikeAnswers, func(t *testing.T, w *world) string {
		return w.compare(t, probe{"CreateInstance", func(ctx context.Context, c nstancev1.OperatorServiceClient, id string) (fmt.Stringer, error) {
			return c.CreateInstance(ctx, &nstancev1.CreateInstanceRequest{InstanceId: &id, Config: &nstancev1.InstanceConfig{Group: "mute"}})
		}}, w.foreign(t), "mut068a3cp3thz5z2mv1gejwftabc")
	}})
}

// compare makes a call for a name that another tenant has and for one that nobody has.
func (w *world) compare(t *testing.T, p probe, foreign, unknown string) string {
	t.Helper()
	c := w.operator(t, attacker)
	var answers [2]string
	for i, name := range []string{foreign, unknown} {
		answer, err := p.call(call(t), c, name)
		answers[i] = strings.ReplaceAll(fmt.Sprintf("%v %s", answer, said(err)), name, "NAME")
	}
	if answers[0] != answers[1] {
		return fmt.Sprintf("what is another tenant's: %s\nwhat is nobody's: %s", answers[0], answers[1])
	}
	return alikeAnswers
}

// foreign is the id of a machine of the other tenant.
func (w *world) foreign(t *testing.T) string {
	t.Helper()
	list, err := w.operator(t, victim).ListInstances(call(t), &nstancev1.ListInstancesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range list.Instances {
		if in.Group == "mute" {
			return in.InstanceId
		}
	}
	t.Fatal("the other tenant has no machine")
	return ""
}

func newID(t *testing.T, kind string) string {
	t.Helper()
	id, err := identity.NewID(kind)
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}

// groupKeys are no keys of groups. None may reach a file, a record or a tag.
func groupKeys() (rows []attempt) {
	for _, key := range []string{
		"", ".", "..", "../acme/mute", "acme/mute", "mute\x00", "Mute", "mute ", "mu\nte", "-mute", "mute-",
		strings.Repeat("m", 300), "mutе", "*", // the last letter of the last but one is Cyrillic
	} {
		name := fmt.Sprintf("%.20q as the key of a group", key)
		rows = append(rows, attempt{"F52", name, "InvalidArgument INVALID_KEY", func(t *testing.T, w *world) string {
			_, err := w.operator(t, attacker).UpsertGroup(call(t), &nstancev1.UpsertGroupRequest{Key: key, Config: plainGroup(0)})
			return reason(err)
		}})
	}
	return rows
}

// plainGroup is a group that the attacker may have.
func plainGroup(size int32) *nstancev1.GroupConfig {
	template := "mute"
	return &nstancev1.GroupConfig{Template: &template, Size: &size}
}

// instanceIDs are ids that nobody may choose.
func instanceIDs() (rows []attempt) {
	for name, id := range map[string]string{
		"no id": "mute", "a path": "../../mut06h0cd5frxrxk8x98ykgt3bd00", "a NUL": "mut06h0cd5frxrxk8x98ykgt3bd\x000", "capitals": "MUT06H0CD5FRXRXK8X98YKGT3BD00",
		"another kind": "dev06h0cd5frxrxk8x98ykgt3bd00", "an operator": "opr06h0cd5frxrxk8x98ykgt3bd00", "an old id": "mut068a3cp3thz5z2mv1gejwftabc",
	} {
		rows = append(rows, attempt{"F52", name + " as the id of an instance", "InvalidArgument INVALID_ID", func(t *testing.T, w *world) string {
			_, err := w.operator(t, attacker).CreateInstance(call(t), &nstancev1.CreateInstanceRequest{InstanceId: &id, Config: &nstancev1.InstanceConfig{Group: "mute"}})
			return reason(err)
		}})
	}
	slices.SortFunc(rows, func(a, b attempt) int { return strings.Compare(a.name, b.name) })
	return rows
}

// administration are the calls of those who administrate the shard.
func administration() (rows []attempt) {
	other := victim
	for _, p := range []probe{
		{"PlanConfig", func(ctx context.Context, c nstancev1.OperatorServiceClient, _ string) (fmt.Stringer, error) {
			return c.PlanConfig(ctx, &nstancev1.PlanConfigRequest{})
		}},
		{"AdoptVM", func(ctx context.Context, c nstancev1.OperatorServiceClient, id string) (fmt.Stringer, error) {
			return c.AdoptVM(ctx, &nstancev1.AdoptVMRequest{ProviderInstanceId: id})
		}},
		{"SetPause of the shard", func(ctx context.Context, c nstancev1.OperatorServiceClient, _ string) (fmt.Stringer, error) {
			return c.SetPause(ctx, &nstancev1.SetPauseRequest{Scope: "shard", Reason: "gotcha"})
		}},
		{"ClearPause of the shard", func(ctx context.Context, c nstancev1.OperatorServiceClient, _ string) (fmt.Stringer, error) {
			return c.ClearPause(ctx, &nstancev1.ClearPauseRequest{Scope: "shard"})
		}},
		{"ConfirmGroups of another tenant", func(ctx context.Context, c nstancev1.OperatorServiceClient, _ string) (fmt.Stringer, error) {
			return c.ConfirmGroups(ctx, &nstancev1.ConfirmGroupsRequest{Tenant: &other, Keys: []string{"mute"}})
		}},
		{"SleepTenant of another tenant", func(ctx context.Context, c nstancev1.OperatorServiceClient, _ string) (fmt.Stringer, error) {
			return c.SleepTenant(ctx, &nstancev1.SleepTenantRequest{Tenant: other})
		}},
		{"WakeTenant of another tenant", func(ctx context.Context, c nstancev1.OperatorServiceClient, _ string) (fmt.Stringer, error) {
			return c.WakeTenant(ctx, &nstancev1.WakeTenantRequest{Tenant: other})
		}},
	} {
		rows = append(rows, attempt{"S12", p.name + " by who does not administrate", "refused", func(t *testing.T, w *world) string {
			_, err := p.call(call(t), w.operator(t, attacker), w.foreign(t))
			if code := reason(err); code != "PermissionDenied NOT_ADMINISTRATOR" && !strings.HasPrefix(code, "Unimplemented") {
				return said(err)
			}
			return "refused"
		}})
	}
	return append(rows, attempt{"S12", "RefreshConfig by who does not administrate", "nothing is read", func(t *testing.T, w *world) string {
		resp, err := w.operator(t, attacker).RefreshConfig(call(t), &emptypb.Empty{})
		if err == nil && resp.Updated {
			return resp.String()
		}
		return "nothing is read"
	}})
}
