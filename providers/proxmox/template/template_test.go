package template

import (
	"testing"
)

func TestDiskSize(t *testing.T) {
	for option, want := range map[string]int64{
		"local-lvm:vm-1-disk-0,discard=on,size=2G": 2 << 30,
		"local-lvm:vm-1-disk-0,size=2.5T":          5 << 39,
		"local-lvm:vm-1-disk-0,size=528K":          528 << 10,
		"local-lvm:vm-1-disk-0,size=4096":          4096,
		"local-lvm:vm-1-disk-0":                    0,
		"local-lvm:vm-1-disk-0,size=":              0,
		"local-lvm:vm-1-disk-0,size=G":             0,
	} {
		if got := diskSize(option); got != want {
			t.Errorf("size of %q is %d, want %d", option, got, want)
		}
	}
}
