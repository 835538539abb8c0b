//go:build hostnodes

package hosts_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"nstance.dev/e2e/env/kube"
)

// TestMain fails with what is missing: a level that cannot run is not a level that passed. The tests
// run in a network of their own, which looks to a kubelet like that of a host.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := preflight(map[string]string{"mkfs.ext4": "e2fsprogs", "fallocate": "util-linux"}); err != nil {
		fmt.Fprintf(os.Stderr, "preflight of e2e-hosts-node failed:\n%v\n", err)
		os.Exit(1) //nolint:forbidigo // the process of tests has no other way to say so
	}
	os.Exit(kube.OwnNetwork(connected{m}).Run()) //nolint:forbidigo // as testing does
}

// hostAddress is that of the host, and of the API server for it.
const hostAddress = "192.0.2.10"

// connected gives the network of tests an interface with an address and a route by it: a kubelet
// takes the address of its Node from there.
type connected struct{ tests kube.Runner }

func (c connected) Run() int {
	if err := alone(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, args := range []string{
		"link add uplink type veth peer name downlink", "address add " + hostAddress + "/24 dev uplink",
		"link set uplink up", "link set downlink up", "route add default via 192.0.2.1 dev uplink",
	} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "ip %s: %v: %s", args, err, out)
			return 1
		}
	}
	return c.tests.Run()
}
