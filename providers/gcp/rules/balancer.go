package rules

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"nstance.dev/server/driver"
)

// LoadBalancer is what the own members of a load balancer name: an unmanaged instance group,
// or zonal network endpoint groups.
type LoadBalancer struct {
	InstanceGroup  string
	EndpointGroups []string
}

// ParseLoadBalancer reads the own members of a load balancer.
func ParseLoadBalancer(args map[string]any) LoadBalancer {
	var lb LoadBalancer
	lb.InstanceGroup, _ = args["instance_group_name"].(string)
	groups, _ := args["network_endpoint_groups"].([]any)
	for _, group := range groups {
		name, _ := group.(string)
		lb.EndpointGroups = append(lb.EndpointGroups, name)
	}
	return lb
}

func checkLoadBalancer(args map[string]any) []driver.Finding {
	var found []driver.Finding
	lb := ParseLoadBalancer(args)
	if (lb.InstanceGroup == "") == (len(lb.EndpointGroups) == 0) {
		found = append(found, driver.Finding{Message: "needs either instance_group_name or network_endpoint_groups", Remedy: "write one of them"})
	}
	for i, name := range lb.EndpointGroups {
		if name == "" {
			found = append(found, driver.Finding{
				Path: []any{"network_endpoint_groups", i}, Message: "required", Remedy: "the name of a network endpoint group",
			})
		}
	}
	if _, given := args["frontends"]; given {
		found = append(found, driver.Finding{Path: []any{"frontends"}, Reserved: true})
	}
	frontends, _ := args["frontends"].([]any)
	for i, item := range frontends {
		frontend, _ := item.(map[string]any)
		ip, _ := frontend["ip"].(string)
		if _, err := netip.ParseAddr(ip); err != nil {
			found = append(found, driver.Finding{
				Path: []any{"frontends", i, "ip"}, Message: quoted(ip) + " is not an IP address", Remedy: `such as "10.0.0.100"`,
			})
		}
		if port, _ := strconv.Atoi(fmt.Sprint(frontend["port"])); port < 1 || port > 65535 {
			found = append(found, driver.Finding{
				Path: []any{"frontends", i, "port"}, Message: strconv.Itoa(port) + " is out of range", Remedy: "from 1 to 65535",
			})
		}
	}
	return found
}

// quoted gives a foreign text in quotes, escaped and cut to a readable length.
func quoted(text string) string {
	const most = 64
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strconv.Quote(text)
}
