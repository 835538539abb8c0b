package rules

import (
	"strings"
	"testing"
)

func TestNIC(t *testing.T) {
	for value, want := range map[string]string{
		"": "virtio,bridge=vmbr1,tag=9",
		"virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1":                  "virtio=BC:24:11:00:00:01,bridge=vmbr1,firewall=1,tag=9",
		"e1000,tag=3,bridge=vmbr0,rate=1.5":                                 "e1000,tag=9,bridge=vmbr1,rate=1.5",
		"bridge=vmbr0,model=vmxnet3,macaddr=02:00:00:00:00:01,trunks=5;6-8": "vmxnet3=02:00:00:00:00:01,bridge=vmbr1,trunks=5;6-8,tag=9",
	} {
		if got := ParseNIC(value).On(Bridge{"vmbr1", 9}).String(); got != want {
			t.Errorf("%q on another bridge is %q, want %q", value, got, want)
		}
	}
}

// FuzzNIC: what is written for a device is read as that device, and moving it to another
// bridge changes bridge and VLAN and nothing else.
func FuzzNIC(f *testing.F) {
	for _, seed := range []string{"", "virtio", "virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1,tag=5", "model=e1000,macaddr=02:00:00:00:00:01,mtu=1", "a,,b=,=c,a=b=c", "bridge=x,bridge=y,tag=1,tag=2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		n := ParseNIC(value)
		if again := ParseNIC(n.String()); n.Model != "" && again.String() != n.String() {
			t.Errorf("%q is %q, and that is %q", value, n, again)
		}
		moved := n.On(Bridge{"vmbr7", 70})
		if got := moved.Bridge(); got.Name == "" || !strings.Contains(moved.String(), "bridge=vmbr7") {
			t.Errorf("%q moved is %q", value, moved)
		}
		for _, option := range n.Options {
			if !strings.HasPrefix(option, "bridge=") && !strings.HasPrefix(option, "tag=") && !strings.Contains(moved.String(), option) {
				t.Errorf("%q moved to another bridge has lost %q: %q", value, option, moved)
			}
		}
	})
}
