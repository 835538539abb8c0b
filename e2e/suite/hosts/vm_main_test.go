//go:build hostvm

package hosts_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"nstance.dev/e2e/env/kube"
)

var hostImage = flag.String("image", "", "folder with what a virtual host begins with; make e2e-hosts-vm makes one")

// TestMain fails with what is missing: a level that cannot run is not a level that passed. Processors are
// emulated where the box does not lend its own.
func TestMain(m *testing.M) {
	flag.Parse()
	err := missing(map[string]string{
		"ip": "iproute2", "qemu-system-x86_64": "qemu-system-x86", "setpriv": "util-linux", "ssh": "openssh-client", "ssh-keygen": "openssh-client",
		"zstd": "zstd",
	})
	if runtime.GOARCH != "amd64" {
		err = errors.Join(err, fmt.Errorf("amd64: the virtual host is of that architecture, this box of %s", runtime.GOARCH))
	}
	if _, statErr := os.Stat(filepath.Join(*hostImage, "disk")); statErr != nil {
		err = errors.Join(err, fmt.Errorf("-image: %w; make e2e-hosts-vm makes it", statErr))
	}
	if err == nil { // what listens for hosts listens where they reach it
		err = os.Setenv("NSTANCE_TEST_ADDRESS", hostAddress)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "preflight of e2e-hosts-vm failed:\n%v\n", err)
		os.Exit(1) //nolint:forbidigo // the process of tests has no other way to say so
	}
	shared := func() error { return nil }                // machines are those of the virtual host, not of this box
	os.Exit(kube.OwnNetwork(connected{m, shared}).Run()) //nolint:forbidigo // as testing does
}
