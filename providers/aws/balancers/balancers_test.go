package balancers

import (
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"nstance.dev/providers/aws/rules"
	"nstance.dev/server/driver"
)

// A target that drains has left: the server would wait for it for ever otherwise.
func TestTargetsThatDrainAreNoMembers(t *testing.T) {
	for state, want := range map[types.TargetHealthStateEnum]string{
		types.TargetHealthStateEnumHealthy: "i-1", types.TargetHealthStateEnumUnhealthy: "i-1", types.TargetHealthStateEnumInitial: "i-1",
		types.TargetHealthStateEnumDraining: "",
	} {
		t.Run(string(state), func(t *testing.T) {
			got := memberID(types.TargetHealthDescription{
				Target: &types.TargetDescription{Id: sdk.String("i-1")}, TargetHealth: &types.TargetHealth{State: state},
			})
			if got != want {
				t.Errorf("member %q, want %q", got, want)
			}
		})
	}
}

func TestTargetHasThePortOfItsGroup(t *testing.T) {
	if got := targetOf("i-1", rules.TargetGroup{ARN: "a", Port: 8443}); sdk.ToString(got.Id) != "i-1" || sdk.ToInt32(got.Port) != 8443 {
		t.Errorf("%+v", got)
	}
	if got := targetOf("i-1", rules.TargetGroup{ARN: "a"}); got.Port != nil {
		t.Errorf("without a port, which is the group's own: %d", sdk.ToInt32(got.Port))
	}
}

func TestBalancerWithoutTargetGroups(t *testing.T) {
	b := New(nil, nil) // nothing is asked
	_, err := b.LBList(t.Context(), driver.LoadBalancer{Key: "web"})
	if driver.ClassOf(err) != driver.MissingRef {
		t.Errorf("%v, want an error of class %s", err, driver.MissingRef)
	}
}
