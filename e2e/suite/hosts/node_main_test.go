//go:build hostnodes

package hosts_test

import (
	"flag"
	"fmt"
	"os"
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
	os.Exit(kube.OwnNetwork(connected{m, alone}).Run()) //nolint:forbidigo // as testing does
}
