package rules

import (
	"strings"
	"testing"
)

func TestParseType(t *testing.T) {
	for text, want := range map[string]Size{
		"":                          {},
		"cpu:4,memory:8192,disk:50": {4, 8192, 50},
		"memory:512, cpu:1":         {1, 512, 0},
		"disk:8":                    {0, 0, 8},
	} {
		if got, err := ParseType(text); err != nil || got != want {
			t.Errorf("type %q is %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, why := range map[string]string{
		"t3.micro":         "not one number",
		"cpu":              "not one number",
		"cpu:many":         "not one number",
		"cpu:2,cpu:4":      "not one number",
		"cpu:2,":           "not one number",
		"gpu:1":            `nothing is called "gpu"`,
		"cpu:0":            "is 0",
		"cpu:-1":           "1 to 1024",
		"memory:8":         "16 to",
		"memory:999999999": "16 to",
		"disk:9999999":     "1 to",
	} {
		if got, err := ParseType(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("type %q is %+v, %v; want an error with %q", text, got, err, why)
		}
	}
}

func TestSizeOver(t *testing.T) {
	if got := (Size{Cores: 2}).Over(Size{4, 1024, 10}); got != (Size{2, 1024, 10}) {
		t.Errorf("got %+v", got)
	}
}

func TestParseSubnet(t *testing.T) {
	for id, want := range map[string]struct {
		Bridge
		device string
	}{
		"vmbr0":     {Bridge{"vmbr0", 0}, "virtio,bridge=vmbr0"},
		"vmbr0.100": {Bridge{"vmbr0", 100}, "virtio,bridge=vmbr0,tag=100"},
		"blue":      {Bridge{"blue", 0}, "virtio,bridge=blue"},
	} {
		got, err := ParseSubnet(id)
		if err != nil || got != want.Bridge || ParseNIC("").On(got).String() != want.device {
			t.Errorf("subnet %q is %+v, %q, %v; want %+v", id, got, ParseNIC("").On(got).String(), err, want)
		}
		if back := ParseNIC("virtio=BC:24:11:00:00:01," + strings.TrimPrefix(want.device, "virtio,") + ",firewall=1").Bridge().ID(); back != id {
			t.Errorf("device %q is in subnet %q, want %q", want.device, back, id)
		}
	}
	for _, id := range []string{"", "vmbr0.", "vmbr0.0", "vmbr0.4095", "vmbr0.x", ".100", "vm br0", "vmbr0,tag=1", "a-name-that-is-too-long"} {
		if got, err := ParseSubnet(id); err == nil {
			t.Errorf("subnet %q is %+v, want an error", id, got)
		}
	}
}

func TestParseDisk(t *testing.T) {
	for text, want := range map[string]int64{"50G": 50, "50": 50, "2T": 2048} {
		if got, err := parseDisk(text); err != nil || got != want {
			t.Errorf("disk %q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "big", "-1", "10M", "+5G", "999T"} {
		if got, err := parseDisk(text); err == nil {
			t.Errorf("disk %q is %d, want an error", text, got)
		}
	}
}
