package configs_test

import (
	"fmt"
	"reflect"
	"testing"

	aws "nstance.dev/providers/aws/rules"
	gcp "nstance.dev/providers/gcp/rules"
	"nstance.dev/server/config"
	"nstance.dev/server/driver"
)

// What a configuration says of a load balancer and of the leader's address arrives at the
// driver as it stands there.
func TestProvidersReadTheirOwnMembers(t *testing.T) {
	const document = `{
  "server": { "cluster_id": "c", "shard": "s", "provider": { "kind": "%s", "zone": "z" }, "subnet_pools": { "p": ["%s"] },
    "leader_network": %s },
  "load_balancers": { "b": %s }
}`
	for _, tt := range []struct {
		kind, subnet, network, balancer string
		read                            func(network, balancer map[string]any) any
		want                            any
	}{
		{
			"aws", "subnet-1", `{ "ip": "10.0.0.9", "interface_id": "eni-1" }`,
			`{ "provider": "aws", "target_groups": [ { "arn": "arn:1", "target_port": 8443 }, { "arn": "arn:2" } ] }`,
			func(n, b map[string]any) any { return []any{aws.LeaderInterface(n), aws.TargetGroups(b)} },
			[]any{"eni-1", []aws.TargetGroup{{ARN: "arn:1", Port: 8443}, {ARN: "arn:2"}}},
		},
		{
			"aws", "subnet-1", `{ "ip": "10.0.0.9", "interface_id": "eni-1" }`,
			`{ "provider": "aws", "target_group_arns": [ "arn:1", "arn:2" ], "tenants": [ "default" ] }`,
			func(_, b map[string]any) any { return aws.TargetGroups(b) },
			[]aws.TargetGroup{{ARN: "arn:1"}, {ARN: "arn:2"}},
		},
		{
			"google", "net", `{ "ip": "10.0.0.9" }`, `{ "provider": "google", "instance_group_name": "web" }`,
			func(_, b map[string]any) any { return gcp.ParseLoadBalancer(b) }, gcp.LoadBalancer{InstanceGroup: "web"},
		},
		{
			"gcp", "net", `{ "ip": "10.0.0.9" }`, `{ "provider": "gcp", "network_endpoint_groups": [ "a", "b" ] }`,
			func(_, b map[string]any) any { return gcp.ParseLoadBalancer(b) }, gcp.LoadBalancer{EndpointGroups: []string{"a", "b"}},
		},
	} {
		text := fmt.Appendf(nil, document, tt.kind, tt.subnet, tt.network, tt.balancer)
		cfg, err := config.Load("f", text, config.LoadOptions{Providers: []*driver.Rules{aws.New(), gcp.New()}})
		if err != nil {
			t.Errorf("%s: %v", tt.balancer, err)
			continue
		}
		if got := tt.read(cfg.Server.LeaderNetwork.Args, cfg.LoadBalancers["b"].Args); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.balancer, got, tt.want)
		}
	}
}
