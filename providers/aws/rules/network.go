package rules

import (
	"fmt"
	"strconv"

	"nstance.dev/server/driver"
)

// TargetGroup is a target group, and the port on the machine; 0 is the group's own.
type TargetGroup struct {
	ARN  string
	Port int
}

// TargetGroups are those of a load balancer's own members.
func TargetGroups(args map[string]any) []TargetGroup {
	var groups []TargetGroup
	arns, _ := args["target_group_arns"].([]any)
	for _, arn := range arns {
		text, _ := arn.(string)
		groups = append(groups, TargetGroup{ARN: text})
	}
	for _, g := range objects(args, "target_groups") {
		arn, _ := g["arn"].(string)
		groups = append(groups, TargetGroup{ARN: arn, Port: number(g, "target_port")})
	}
	return groups
}

// LeaderInterface is the network interface that carries the leader's address, of the own
// members of server.leader_network.
func LeaderInterface(args map[string]any) string {
	id, _ := args["interface_id"].(string)
	return id
}

func checkLoadBalancer(args map[string]any) []driver.Finding {
	var found []driver.Finding
	arns, _ := args["target_group_arns"].([]any)
	groups := objects(args, "target_groups")
	if (len(arns) == 0) == (len(groups) == 0) {
		found = append(found, driver.Finding{Message: "needs either target_group_arns or target_groups", Remedy: "write one of them"})
	}
	for i, arn := range arns {
		if arn == "" {
			found = append(found, missing("the ARN of a target group", "target_group_arns", i))
		}
	}
	for i, g := range groups {
		if arn, _ := g["arn"].(string); arn == "" {
			found = append(found, missing("the ARN of a target group", "target_groups", i, "arn"))
		}
		for _, port := range []string{"listener_port", "target_port", "proxy_port"} {
			if n := number(g, port); n < 0 || n > 65535 {
				found = append(found, driver.Finding{
					Path: []any{"target_groups", i, port}, Message: strconv.Itoa(n) + " is out of range", Remedy: "from 0 to 65535",
				})
			}
		}
		for _, port := range []string{"listener_port", "proxy_port"} {
			if _, given := g[port]; given {
				found = append(found, driver.Finding{Path: []any{"target_groups", i, port}, Reserved: true})
			}
		}
	}
	return found
}

func checkLeaderNetwork(args map[string]any) []driver.Finding {
	if LeaderInterface(args) == "" {
		return []driver.Finding{missing("the network interface that carries the address, such as eni-0abc", "interface_id")}
	}
	return nil
}

func missing(remedy string, path ...any) driver.Finding {
	return driver.Finding{Path: path, Message: "required", Remedy: remedy}
}

// number is a member that is a whole number, as the schema has it; 0 if it is missing.
func number(of map[string]any, name string) int {
	n, _ := strconv.Atoi(fmt.Sprint(of[name]))
	return n
}
